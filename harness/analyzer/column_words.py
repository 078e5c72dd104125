"""What the heads of tables mean. A head that is a term, or a metric, is explained by that."""

from __future__ import annotations

COLUMNS: dict[str, str] = {
    "what": "What a row is about.",
    "value": "What was given or found.",
    "ratio": "Candidate over baseline of the metric as it is, whichever way is better; over "
    "several runs of the geometric means. ~ stands where the interval holds 1: no difference was "
    "shown, which does not mean that there is none.",
    "95 % interval": "Where a ratio lies with 95 % confidence, by how much repeats differ: "
    "Student's t on logarithms, of the ratios of pairs or of rounds where the sides ran side by "
    "side, and else of both sides (Welch). What is common to a pair or a round cancels out.",
    "p": "How likely it is to see so clear a difference, either way, where there is none. It is "
    "given for each row by itself: of 20 without a difference one is below 0.05.",
    "p of all rows": "p corrected for all rows of the table (Benjamini and Hochberg): of the rows "
    "that are called a difference below 0.05, about one in 20 is none.",
    "n": "How many pairs, or rounds, a ratio is made of.",
    "reading": "Whether a ratio is good news for the candidate: better or worse; unclear where "
    "its interval holds 1, and with a question mark where it has none.",
    "seen": "What a check found.",
    "allowed": "What a check lets pass.",
    "in": "The runs that it is said of.",
    "about": "What a caution is about: runs, or a comparison.",
    "error": "What kind of failure it was.",
    "first message": "What the first failure of that kind said.",
    "code": "The name of a caution, the same everywhere.",
    "remedy": "What would remove the doubt.",
    "outcome": "How a run came out: its validity, or FAILED.",
    "answers": "Whether both sides did the same work: their answers to the same prompts, compared "
    "without keeping them.",
    "claimed": "What others published: measured by them, not here.",
    "on": "The model, hardware and workload of a claim by others.",
    "source": "Who said it, when and where.",
    "it does not say": "What would have to be known to compare a claim with a number of yours.",
    "order": "AB: the baseline was run first. BA: the candidate was.",
    "seed": "The number that all that is random in a workload is drawn from.",
    "first run": "The run of a pair that was made first.",
    "second run": "The run of a pair that was made second.",
    "worse by": "The ratio of the sides less 1, turned so that + is worse; ~ where no difference "
    "was shown.",
    "interval of the gate": "Where worse by lies, by how much repeats differ, with the confidence "
    "that the gate's error rate leaves; + is worse.",
    "margin": "How much worse the candidate may be; a regression from there on is one.",
    "p of FAIL": "How likely so bad a result is at the margin, corrected for all metrics (Holm).",
    "p by signs": "A second opinion on any change for the worse, which only looks at which side "
    "of each pair was ahead.",
    "can resolve": "The margin that as many runs of this noise rule out 9 times in 10 when "
    "nothing has changed.",
    "level": "One rung of an ablation: all that the rungs below it have, and one factor more. Its "
    "value is the geometric mean of its rounds.",
    "adds": "The factor that a level has and the one below it has not.",
    "why not": "Why a run does not count.",
    "to the one above": "The level's value over that of the level above it in the table, round by "
    "round on the same bytes.",
    "to the first": "The level's value over that of the first level.",
    "rounds": "How many rounds a ratio is made of.",
    "load": "How hard the engine is pushed: requests a second, or requests in flight.",
    "mark": "Whether a load is worth choosing: choice or saturated.",
    "answer": "Whether a probe met its objectives: met, not met or unresolved.",
    "within": "The share of requests that kept to the objective, and its 95 % interval (Wilson's, "
    "for as many independent requests as they are worth).",
    "why": "What an answer rests on.",
    "model": "Which weights, and in which form.",
    "hardware": "Which machine it was measured on.",
    "started (UTC)": "When the run began.",
    "folder": "A folder that was looked into.",
    "reason": "Why it could not be read.",
    "from run": "The first run after a change.",
    "before": "The median of the runs before a change.",
    "after": "The median of the runs from a change on.",
    "change": "How far the level moved.",
    "what else changed there": "Which recorded settings are not the same before and after.",
    "machine": "The CPU, its cores and the GPUs, as this machine says of itself.",
    "saved": "When a baseline was saved, by whom and why.",
    "state": "Whether a baseline may be compared with: usable, old, retired or not usable.",
    "number": "A latency or a rate, by the statistic that a tool prints of it.",
    "of": "Whose numbers a row is about.",
    "in this run": "How far a tool's number is from batchmark's in the run at hand.",
    "rule": "A question that every tool answers in its own way when it counts.",
    "look at": "What of this machine can spoil a measurement.",
    "what to do": "What makes this machine fit to measure on.",
    "reached": "The most that this machine did a second.",
    "how": "With how many threads, and when.",
    "noise of a pair": "How much the ratio of a pair of the same engine varies by itself.",
    "at most (80 %)": "What the noise of a pair is below with 80 % confidence.",
    "margin to use": "The least margin at which a gate of as many pairs can decide in that noise.",
    "in the file": "Where in another tool's file a number stands.",
    "stands for": "The metric of batchmark that a number of another tool is most like.",
    "definition": "How the other tool defines the number.",
    "knob": "What an engine can be told, such as how many requests it runs at once.",
    "what differs": "What is not as it was when the run was made.",
    "then": "What it was when the run was made.",
    "now": "What it is today.",
    "status": "Whether a run is complete, was interrupted, failed, or is still running.",
    "figure": "What the simulator counted or timed, in virtual time.",
    "OK": "Requests that ended well, of those planned.",
    "claim": "The short name of what others published.",
    "date": "When it was published.",
}
