"""Plans by name, so that host and guest can make the same one."""
import dataclasses

from trip import model


@dataclasses.dataclass(frozen=True)
class Plan:
    style: str  # mixed or scattered
    seed: int
    sectors: int
    block: int  # in sectors
    count: int
    generation: int  # of the first operation


def steps(plan):
    """The numbered operations of `plan`."""
    make = {"mixed": model.mixed_plan, "scattered": model.scattered_plan}[plan.style]
    return enumerate(make(plan.seed, plan.sectors, plan.block, plan.count, plan.generation))
