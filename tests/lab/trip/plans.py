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


AT_ONCE = 8


def batches(plan):
    """The steps in groups that may be carried out side by side: no two touch the same sector."""
    batch = []
    for index, operation in steps(plan):
        alone = operation.kind in ("flush", "read")
        end = operation.first + operation.count
        if batch and (alone or len(batch) == AT_ONCE or any(
                other.first < end and operation.first < other.first + other.count for _, other in batch)):
            yield batch
            batch = []
        batch.append((index, operation))
        if alone:
            yield batch
            batch = []
    if batch:
        yield batch


def steps(plan):
    """The numbered operations of `plan`."""
    make = {"mixed": model.mixed_plan, "scattered": model.scattered_plan}[plan.style]
    return enumerate(make(plan.seed, plan.sectors, plan.block, plan.count, plan.generation))
