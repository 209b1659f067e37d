"""What the papers claim, table by table: verdicts and effects from the committed rows. The page is docs/claims.md.

    python -m studies.claims    # writes the table of the page

An effect is a difference of two methods in points, paired by seed, with its 95% interval over seeds. A claim holds if
the interval of each of its effects is above 0, is seen in part if that of some is, and is not seen if that of none is.
A claim that methods are equal holds if each interval lies within two points of 0.
"""

from dataclasses import dataclass

import numpy as np

import tfdml
from studies import pages, runner

PAGE = "docs/claims.md"
POINTS = 2.0
HEAD = ("paper", "where", "claim", "command", "verdict", "effect in points, with its interval", "why")


@dataclass(frozen=True)
class Claim:
    """A claim of a table or figure, and the differences that decide it.

    Attributes:
        paper: short name of the paper.
        where: its table or figure.
        text: the claim.
        command: what makes the rows, after `python -m`.
        file: the rows, in `benchmarks/results`; empty if no rows decide the claim.
        effects: pairs of settings, (better, worse).
        why: the reason of the verdict where it is known, or what decides in place of rows.
        key: column of the number.
        equal: whether the claim is that there is no difference.
    """

    paper: str
    where: str
    text: str
    command: str
    file: str = ""
    effects: tuple[tuple[dict, dict], ...] = ()
    why: str = ""
    key: str = "recall@1"
    equal: bool = False


def study(paper, name):
    """The command of a study, and the file of its rows."""
    return {"command": f"studies {paper} {name}", "file": f"{paper}/{name}.csv"}


def over(settings, better, worse):
    """One effect for each of the settings: `better` against `worse`."""
    return tuple(({**one, **better}, {**one, **worse}) for one in settings)


def each(better, others):
    """One effect for each of the others: `better` against it."""
    return tuple((better, one) for one in others)


def named(key, *values):
    """A dict of settings for each value."""
    return [{key: value} for value in values]


GROUPS = [
    {"chosen": 1, "negatives": lambda_, "design": design}
    for lambda_ in (256.0, 64.0)
    for design in ("2x32", "4x16", "8x8", "16x4", "32x2")
]
PAIRS = [{"chosen": 1, "negatives": 256.0, "design": f"{p}-random"} for p in (0.9, 0.5, 0.1)]
FROM_TRAINED = [{"negatives": group["negatives"], "design": group["design"]} for group in GROUPS]
PAIRS_OF_TRAINED = [{"negatives": 256.0, "design": f"{one['design']}-2016"} for one in PAIRS]
EXPONENTS = [{"design": design, "negatives": lambda_} for design in ("4x16", "32x2") for lambda_ in (64.0, 256.0)]
FOUR = named("loss", "contrastive", "triplet squared", "triplet", "margin")
BATCHES = [{"loss": loss, "batch": batch} for loss in ("triplet", "margin") for batch in (40, 80, 120)]
DISTANCE, SEMI, RANDOM = named("mining", "distance weighted", "semi-hard", "random")
LIFTED, GROUPED, SIMILARITY = named("method", "lifted structure", "grouped KL, gamma = 1", "multi-similarity")
COLD = named("method", *(f"grouped KL, gamma = {gamma}" for gamma in ("0.1", "0.01", "0.001")))
KEPT, OPEN = named("method", "all pairs, zero losses kept", "a margin of 4, no loss is zero")
WEIGHTS = {name: {"method": name} for name in ("RAW", "binomial deviance", "RAW, valid triplets")}
ROBUST = named("mining", "top k", "top k balanced", "KL")
PUBLIC = "needs the pictures of a public set"
WHOLE = study("leaderboard", "whole")  # all layers of a network of ImageNet, on photo patches
ON_PHOTOS = "all layers of a network of ImageNet, on photo patches"


def whole(loss):
    """The test of a method on the board of whole networks."""
    return {"loss": loss, "part": "test"}


CLAIMS = (
    Claim(
        "weighted contrastive",
        "Table 1",
        "weights help every group design",
        **study("importance_sampling", "batch_designs"),
        effects=over(GROUPS, {"delta": 1.0}, {"delta": 0.0}),
        why="lambda = 256 is beyond the plateau here, and (2, 32) without weights has a good one by itself",
    ),
    Claim(
        "weighted contrastive",
        "Table 1",
        "weights help every group design, over features of a trained network",
        **study("importance_sampling", "trained_start"),
        effects=over(FROM_TRAINED, {"delta": 1.0}, {"delta": 0.0}),
        why="no design collapses without weights where the network stays as it is",
    ),
    Claim(
        "weighted contrastive",
        "Table 1",
        "the same where all layers of a trained network are trained",
        **study("importance_sampling", "whole_network"),
        effects=over(FROM_TRAINED, {"delta": 1.0}, {"delta": 0.0}),
        why="the spread over designs shrinks to 0.34 and 0.39, in the paper to 0.36",
    ),
    Claim(
        "weighted contrastive",
        "Table 1",
        f"weights help balanced batches, {ON_PHOTOS}",
        **WHOLE,
        effects=each(whole("balanced contrastive"), [whole("balanced contrastive, no weights")]),
    ),
    Claim(
        "weighted contrastive",
        "Table 1",
        "weights help p-random pairs, 126 in a batch",
        **study("importance_sampling", "batch_designs"),
        effects=over(PAIRS, {"delta": 1.0}, {"delta": 0.0}),
        why="weights of few pairs vary more",
    ),
    Claim(
        "weighted contrastive",
        "Table 1",
        "the same with 2,016 pairs",
        **study("importance_sampling", "all_pairs"),
        effects=over([{**one, "design": f"{one['design']}-2016"} for one in PAIRS], {"delta": 1.0}, {"delta": 0.0}),
        why="sixteen times the images of a run with 126 pairs; over features, see below",
    ),
    Claim(
        "weighted contrastive",
        "Table 1",
        "the same with 2,016 pairs, over features of a trained network",
        **study("importance_sampling", "trained_pairs"),
        effects=over(PAIRS_OF_TRAINED, {"delta": 1.0}, {"delta": 0.0}),
    ),
    Claim(
        "weighted contrastive",
        "Figure 1",
        "the exact weight is better than none",
        **study("importance_sampling", "exponent"),
        effects=over(EXPONENTS, {"delta": 1.0}, {"delta": 0.0}),
    ),
    Claim(
        "weighted contrastive",
        "Figure 1",
        "the exact weight is better than its square",
        **study("importance_sampling", "exponent"),
        effects=over(EXPONENTS, {"delta": 1.0}, {"delta": 2.0}),
    ),
    Claim(
        "weighted contrastive",
        "Figure 2",
        "weights improve Recall@1 of the contrastive loss",
        **study("importance_sampling", "train_loss"),
        effects=(({"delta": 1.0, "step": 2000}, {"delta": 0.0, "step": 2000}),),
        why="the loss that is minimized has a lambda of 697, beyond the plateau",
    ),
    Claim(
        "weighted contrastive",
        "Figure 2",
        "weights minimize the full loss further (its difference times 100)",
        **study("importance_sampling", "train_loss"),
        key="full_loss",
        effects=(({"delta": 0.0, "step": 2000}, {"delta": 1.0, "step": 2000}),),
    ),
    Claim(
        "weighted contrastive",
        "Figure 3",
        "weights help at every imbalance of classes",
        **study("importance_sampling", "class_sizes"),
        effects=over([{"per_class": 32, "removed": gamma / 10} for gamma in range(11)], {"delta": 1.0}, {"delta": 0.0}),
    ),
    Claim(
        "weighted contrastive",
        "Figure 4",
        "Recall@1 has a plateau in lambda: 64 is ahead of both ends",
        **study("importance_sampling", "negatives"),
        effects=each(
            {"loss": "balanced", "negatives": 64.0}, [{"loss": "balanced", "negatives": end} for end in (1.0, 8192.0)]
        ),
    ),
    Claim(
        "weighted contrastive",
        "Tables 2 to 4",
        "balanced contrastive beside other losses",
        "recipes.benchmarks",
        why=PUBLIC,
    ),
    Claim(
        "weighted contrastive",
        "Tables 2 to 4",
        f"balanced contrastive is better than contrastive, triplet and n-pairs, {ON_PHOTOS}",
        **WHOLE,
        effects=each(whole("balanced contrastive"), map(whole, ("contrastive", "triplet", "n-pairs"))),
    ),
    Claim(
        "gradient analysis",
        "Figure 1",
        "weights over the similarity of a pair",
        "studies.pair_weights",
        why="a figure, without a training",
    ),
    Claim(
        "gradient analysis",
        "Table 1",
        "RAW is better than binomial deviance",
        **study("mining", "weights"),
        effects=((WEIGHTS["RAW"], WEIGHTS["binomial deviance"]),),
    ),
    Claim(
        "gradient analysis",
        "Table 1",
        f"the same, {ON_PHOTOS}",
        **WHOLE,
        effects=((whole("RAW"), whole("binomial deviance")),),
    ),
    Claim(
        "gradient analysis",
        "Table 1",
        "mining adds to weighting",
        **study("mining", "weights"),
        effects=(
            (WEIGHTS["RAW, valid triplets"], WEIGHTS["RAW"]),
            ({"method": "binomial deviance, valid triplets"}, WEIGHTS["binomial deviance"]),
        ),
        why="from scratch, fewer pairs reduce the recall",
    ),
    Claim(
        "gradient analysis",
        "Table 1",
        "weighting adds to mining",
        **study("mining", "weights"),
        effects=((WEIGHTS["RAW, valid triplets"], {"method": "valid triplets"}),),
    ),
    Claim(
        "gradient analysis",
        "Table 1",
        "valid triplets are better than other samplings",
        **study("mining", "weights"),
        effects=each(WEIGHTS["RAW, valid triplets"], named("method", "RAW, distance weighted", "RAW, semi-hard")),
    ),
    Claim(
        "gradient analysis",
        "Tables 2 and 3",
        "RAW with valid triplets beside other methods",
        "recipes.benchmarks",
        why=PUBLIC,
    ),
    Claim(
        "sampling matters",
        "Figure 2, 3a",
        "distances concentrate; how noisy gradients are by distance",
        "studies.mining.theory",
        why="a figure, without a training",
    ),
    Claim(
        "sampling matters",
        "Figures 3b, 7",
        "which negatives each sampling draws",
        "studies mining distances",
        why="densities of one run: see the page of mining",
    ),
    Claim(
        "sampling matters",
        "Figure 4",
        "losses over the distance of a pair",
        "studies.loss_over_distance",
        why="a figure, without a training",
    ),
    Claim(
        "sampling matters",
        "Table 1",
        "distance-weighted sampling is better than random",
        **study("mining", "samplings"),
        effects=over(FOUR, DISTANCE, RANDOM),
    ),
    Claim(
        "sampling matters",
        "Table 1",
        f"the same, {ON_PHOTOS}",
        **WHOLE,
        effects=(
            (whole("margin"), whole("margin, random")),
            (whole("contrastive, distance weighted"), whole("contrastive, random")),
            (whole("triplet, distance weighted"), whole("triplet, random")),
        ),
    ),
    Claim(
        "sampling matters",
        "Table 1",
        "distance-weighted sampling is better than semi-hard",
        **study("mining", "samplings"),
        effects=over(FOUR, DISTANCE, SEMI),
    ),
    Claim(
        "sampling matters",
        "Table 1",
        f"the same, {ON_PHOTOS}",
        **WHOLE,
        effects=(
            (whole("margin"), whole("margin, semi-hard")),
            (whole("triplet, distance weighted"), whole("semi-hard triplet")),
        ),
        why="it holds for margin, and not for triplet",
    ),
    Claim(
        "sampling matters",
        "Table 1",
        "the margin loss is the best with distance-weighted sampling",
        **study("mining", "samplings"),
        effects=each({**FOUR[3], **DISTANCE}, [{**one, **DISTANCE} for one in FOUR[:3]]),
        why="its boundary of 1.2 is too large here: see Table 3",
    ),
    Claim(
        "sampling matters",
        "Table 1",
        f"the same, {ON_PHOTOS}",
        **WHOLE,
        effects=each(whole("margin"), map(whole, ("contrastive, distance weighted", "triplet, distance weighted"))),
        why="with a learned boundary for each class",
    ),
    Claim(
        "sampling matters",
        "Table 2",
        "distance-weighted is better than random at every batch size",
        **study("mining", "batch_sizes"),
        effects=over(BATCHES, DISTANCE, RANDOM),
    ),
    Claim(
        "sampling matters",
        "Table 3",
        "learned boundaries beat every fixed one",
        **study("mining", "boundaries"),
        effects=each({"boundary": "learned"}, named("boundary", 0.8, 1.0, 1.2, 1.4)),
        why="the best fixed one is the smallest of the four",
    ),
    Claim("sampling matters", "Figure 5", "retrieval of random queries", "studies.visualize", why="pictures"),
    Claim(
        "sampling matters",
        "Figure 6",
        "the margin loss converges faster: accuracy after 120 steps",
        **study("verification", "curves"),
        key="accuracy",
        effects=each(
            {"loss": "margin", "per_class": 5, "step": 120},
            [{"loss": loss, "per_class": 5, "step": 120} for loss in ("triplet", "contrastive")],
        ),
    ),
    Claim(
        "sampling matters",
        "Figure 8",
        "the threshold of the margin loss is the same for 2 and 10 images of a class (distance times 100)",
        **study("verification", "curves"),
        key="threshold",
        equal=True,
        effects=(({"loss": "margin", "per_class": 2, "step": 300}, {"loss": "margin", "per_class": 10, "step": 300}),),
    ),
    Claim(
        "sampling matters",
        "Table 7",
        "the margin loss verifies best",
        **study("verification", "losses"),
        key="accuracy",
        effects=each({"loss": "margin", "dim": 128}, named("loss", "softmax", "N-pairs", "triplet", "contrastive")),
    ),
    Claim("sampling matters", "Tables 4 to 6, 8", "margin loss beside other methods", "recipes.benchmarks", why=PUBLIC),
    Claim(
        "slides",
        "mining",
        "batch hard is better than all triplets",
        **study("reidentification", "triplets"),
        key="map",
        effects=over(
            [{"part": "test", "margin": margin} for margin in (0.2, 1.0, "soft")],
            {"loss": "batch hard"},
            {"loss": "batch all"},
        ),
    ),
    Claim(
        "slides",
        "mining",
        "batch hard is better than given triplets",
        **study("reidentification", "triplets"),
        key="map",
        effects=over(
            [{"part": "test", "margin": margin} for margin in (0.2, 1.0, "soft")],
            {"loss": "batch hard"},
            {"loss": "triplet"},
        ),
    ),
    Claim(
        "slides",
        "losses",
        "softmax losses with margins beside losses of pairs",
        "studies leaderboard",
        why="see the leaderboard",
    ),
    Claim(
        "robust pairs",
        "Table 1",
        "robust losses are better than multi-similarity",
        "studies mining robust_losses",
        "mining/robust_losses.csv mining/temperatures.csv",
        tuple((one, SIMILARITY) for one in named("method", "TopK-PN, margin", "KL, margin", "grouped KL, gamma = 0.1")),
        why="K and gamma are not tuned",
    ),
    Claim(
        "robust pairs",
        "Table 1",
        "the same for TopK, and over binomial deviance",
        "studies mining robust_others",
        "mining/robust_others.csv mining/temperatures.csv",
        tuple((one, SIMILARITY) for one in named("method", "TopK, margin", "TopK, binomial", "TopK-PN, binomial")),
    ),
    Claim(
        "robust pairs",
        "Table 1",
        f"robust losses are better than multi-similarity, {ON_PHOTOS}",
        **WHOLE,
        effects=tuple((whole(one), whole("multi-similarity")) for one in ("TopK", "TopK-PN", "KL", "grouped KL")),
    ),
    Claim(
        "robust pairs",
        "Table 1",
        f"TopK over binomial deviance is better than multi-similarity, {ON_PHOTOS}",
        **WHOLE,
        effects=((whole("TopK of binomial"), whole("multi-similarity")),),
    ),
    Claim(
        "robust pairs",
        "Figure 4",
        "the same over five runs",
        **study("mining", "five_runs"),
        effects=tuple((one, SIMILARITY) for one in named("method", "TopK-PN, margin", "KL, margin", "TopK, binomial")),
    ),
    Claim(
        "robust pairs",
        "Tables 2, 4",
        "grouped KL at gamma = 1 equals the lifted structure loss",
        **study("mining", "temperatures"),
        equal=True,
        effects=((GROUPED, LIFTED),),
        why="satisfied pairs have no gradient, and are left out of the weights, as in the experiments of the paper",
    ),
    Claim(
        "robust pairs",
        "Tables 2, 4",
        "the same where pairs of zero loss keep their weight",
        "studies mining zero_losses",
        "mining/zero_losses.csv mining/temperatures.csv",
        ((KEPT, LIFTED),),
        equal=True,
        why="a satisfied pair has no gradient; the lifted structure loss goes on to pull or push it",
    ),
    Claim(
        "robust pairs",
        "Tables 2, 4",
        "the same where no pair has zero loss",
        "studies mining zero_losses",
        "mining/zero_losses.csv mining/temperatures.csv",
        ((OPEN, LIFTED),),
        equal=True,
        why="the gradients are equal",
    ),
    Claim(
        "robust pairs",
        "Tables 2, 4",
        "a smaller temperature is better than 1",
        **study("mining", "temperatures"),
        effects=tuple((one, GROUPED) for one in COLD),
    ),
    Claim(
        "robust pairs",
        "Figure 1",
        "in batches of 640 robust losses are ahead of distance-weighted sampling",
        **study("mining", "imbalance"),
        effects=over(named("batch", 640), ROBUST[0], DISTANCE)
        + over(named("batch", 640), ROBUST[1], DISTANCE)
        + over(named("batch", 640), ROBUST[2], DISTANCE),
        why="equal images, so 187 steps, from scratch",
    ),
    Claim(
        "robust pairs",
        "Figure 1",
        "with 187 steps each, robust losses gain from 80 to 640 images",
        "studies mining equal_steps",
        "mining/equal_steps.csv mining/imbalance.csv",
        tuple(({**one, "batch": 640}, {**one, "batch": 80, "steps": 187}) for one in ROBUST),
        why="with equal images, 80 images have 1,500 steps",
    ),
    Claim(
        "robust pairs",
        "Figure 1",
        "with 187 steps each, distance-weighted sampling gains less than they do: it loses",
        "studies mining equal_steps",
        "mining/equal_steps.csv mining/imbalance.csv",
        (({**DISTANCE, "batch": 80, "steps": 187}, {**DISTANCE, "batch": 640}),),
    ),
    Claim(
        "robust pairs",
        "Figure 5",
        "the same with another dimension",
        **study("mining", "dimensions"),
        effects=tuple(({**one, "batch": 640}, {**DISTANCE, "batch": 640}) for one in ROBUST),
    ),
    Claim(
        "robust pairs",
        "Figure 2",
        "K may be anything from 640 to 2,560",
        **study("mining", "top_k"),
        equal=True,
        effects=each({"taken": 1280.0}, named("taken", 640.0, 960.0, 1600.0, 1920.0, 2560.0)),
        why="from scratch a batch must train on many of its pairs",
    ),
    Claim(
        "robust pairs",
        "Figure 3",
        "robust losses are fast",
        "benchmarks.robust",
        why="milliseconds, without seeds: see the page of mining",
    ),
)


def differences(claim, rows):
    """The differences of each effect of a claim, in points, one for each seed that both methods have."""
    return [
        _paired(_by_seed(rows, better, claim.key), _by_seed(rows, worse, claim.key)) for better, worse in claim.effects
    ]


def interval(values):
    """The mean of some differences and its 95% interval over seeds."""
    return float(np.mean(values)), *tfdml.metrics.seed_interval(values)


def verdict(intervals, *, equal):
    """What the intervals (mean, low, high) say of a claim: "holds", "in part" or "not seen"."""
    holds = [low > -POINTS and high < POINTS if equal else low > 0 for _, low, high in intervals]
    return "holds" if all(holds) else "in part" if any(holds) else "not seen"


def effects_text(intervals):
    """The effect, or the smallest and the largest of several, as text."""
    ordered = sorted(intervals)
    shown = ordered[:1] + ordered[1:][-1:]
    number = f", of {len(intervals)}" if len(intervals) > 2 else ""
    return " to ".join(f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]" for mean, low, high in shown) + number


def line(claim):
    """The cells of a claim in the table of the page."""
    paths = [pages.RESULTS / name for name in claim.file.split()]
    about = [claim.paper, claim.where, claim.text, f"`python -m {claim.command}`"]
    if not paths:
        return [*about, "no rows", "", claim.why]
    if not all(path.exists() for path in paths):
        return [*about, "not run", "", claim.why]
    intervals = [
        interval(values) for values in differences(claim, [row for path in paths for row in runner.read_rows(path)])
    ]
    return [*about, verdict(intervals, equal=claim.equal), effects_text(intervals), claim.why]


def table():
    """The table of all claims."""
    return runner.markdown(HEAD, [line(claim) for claim in CLAIMS])


def filled(page):
    """The text of the page with its table filled from the rows."""
    return pages.replaced(page, "<!-- claims of studies/claims -->", table())


def _by_seed(rows, settings, key):
    """Seed to the number of the one row with these settings."""
    chosen = [row for row in rows if all(row.get(name) == value for name, value in settings.items())]
    numbers = {row["seed"]: row[key] for row in chosen}
    if len(numbers) < len(chosen) or not chosen:
        raise ValueError(
            f"Received {len(chosen)} rows with {settings}, expected one for each seed. Name more settings."
        )
    return numbers


def _paired(better, worse):
    return [100 * (better[seed] - worse[seed]) for seed in sorted(better.keys() & worse.keys())]


if __name__ == "__main__":
    path = pages.ROOT / PAGE
    path.write_text(filled(path.read_text()))
