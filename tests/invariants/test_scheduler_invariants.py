"""Random workloads under every policy: what must hold whatever arrives, ends and is cancelled."""

from hypothesis import given
from hypothesis import strategies as st

from engines.scheduling.policies import POLICY_NAMES, make_policy
from engines.scheduling.scheduler import Limits, Scheduler
from engines.scheduling.sequence import Sequence, SequenceState
from engines.scheduling.step import StepPlan, StepResult

BLOCK_TOKENS = 4

sequences = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 12), st.integers(0, 10)), min_size=1, max_size=25
)
policies = st.sampled_from(POLICY_NAMES)
events = st.randoms(use_true_random=False)


@given(rows=sequences, policy=policies, slots=st.integers(1, 5), pad=st.booleans(), rng=events)
def test_every_request_ends_and_no_block_is_owned_twice_or_leaked(
    rows: list[tuple[int, int, int]], policy: str, slots: int, pad: bool, rng: object
) -> None:
    limits = Limits(slots, kv_blocks=30, block_tokens=BLOCK_TOKENS, pad_prompts=pad)
    target = Scheduler(make_policy(policy), limits)
    all_sequences = [Sequence(i, p, m, a) for i, (p, m, a) in enumerate(rows)]
    pending = sorted(all_sequences, key=lambda s: s.arrived_ns)
    admitted: list[int] = []
    now_ns = 0
    for _ in range(5000):
        while pending and pending[0].arrived_ns <= now_ns:
            target.add(pending.pop(0))
        target.is_draining = not pending
        if not pending and not target.has_work:
            break
        plan = target.plan(now_ns)
        now_ns += 1
        if plan is None:
            continue
        check_plan(plan, target, limits)
        admitted += [p.sequence_id for p in plan.prefills]
        produced = [d.sequence_id for d in plan.decodes if not d.is_padding]
        stopped = frozenset(i for i in produced if rng.random() < 0.05)  # type: ignore[attr-defined]
        target.commit(plan, StepResult(stopped))
        if rng.random() < 0.1:  # type: ignore[attr-defined]
            target.cancel(rng.randrange(len(rows)))  # type: ignore[attr-defined]

    assert not pending
    assert not target.has_work
    assert target.kv_blocks_used == 0
    assert all(s.state is SequenceState.ENDED for s in all_sequences)
    assert all(s.generated <= s.max_tokens for s in all_sequences)
    order = [s.id for s in sorted(all_sequences, key=lambda s: s.arrived_ns)]
    assert admitted == [i for i in order if i in set(admitted)]  # first come, first served


def check_plan(plan: StepPlan, target: Scheduler, limits: Limits) -> None:
    owned = [block for s in target.held for block in s.blocks]
    assert len(owned) == len(set(owned)) == plan.kv_blocks_used
    assert len(target.held) <= limits.slots
    assert plan.running + plan.padded == len(target.held)
    assert plan.running > 0, "a step that produces nothing is wasted"
    for decode in plan.decodes:
        assert decode.position < len(decode.blocks) * BLOCK_TOKENS
    for prefill in plan.prefills:
        assert prefill.tokens <= len(prefill.blocks) * BLOCK_TOKENS
