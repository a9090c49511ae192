// The kernel's ublk interface: <linux/ublk_cmd.h>, and what Debian 12's copy of it lacks.
#pragma once

#include <linux/ublk_cmd.h>
#include <sys/ioctl.h>

#include <cstdint>

namespace uc::frontend::ublk {

// Commands carry their direction and size, as ioctl numbers do (Linux 6.4 and later).
inline constexpr std::uint32_t kGetDevInfo = _IOR('u', UBLK_CMD_GET_DEV_INFO, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kAddDev = _IOWR('u', UBLK_CMD_ADD_DEV, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kDelDev = _IOWR('u', UBLK_CMD_DEL_DEV, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kStartDev = _IOWR('u', UBLK_CMD_START_DEV, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kStopDev = _IOWR('u', UBLK_CMD_STOP_DEV, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kSetParams = _IOWR('u', UBLK_CMD_SET_PARAMS, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kGetParams = _IOR('u', UBLK_CMD_GET_PARAMS, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kStartRecovery =
    _IOWR('u', UBLK_CMD_START_USER_RECOVERY, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kEndRecovery =
    _IOWR('u', UBLK_CMD_END_USER_RECOVERY, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kGetFeatures = _IOR('u', 0x13, ublksrv_ctrl_cmd);
inline constexpr std::uint32_t kFetch = _IOWR('u', UBLK_IO_FETCH_REQ, ublksrv_io_cmd);
inline constexpr std::uint32_t kCommitAndFetch =
    _IOWR('u', UBLK_IO_COMMIT_AND_FETCH_REQ, ublksrv_io_cmd);

inline constexpr std::uint64_t kRecovery = UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE;

inline constexpr const char* kControlPath = "/dev/ublk-control";

}  // namespace uc::frontend::ublk
