"""The claims of five papers, each with the effect that the paper prints and the rows that decide it here."""

from typing import NamedTuple

from studies.claims.evidence import (
    GLYPH_FEATURES,
    GLYPHS,
    PHOTO_FEATURES,
    PHOTOS,
    WHOLE_GLYPHS,
    WHOLE_PHOTOS,
    Evidence,
    board,
    study,
)


class Claim(NamedTuple):
    """A claim of a table or figure, what decides it in each setting, and the effect that the paper prints, if any."""

    where: str
    text: str
    paper: str
    evidence: tuple[Evidence, ...]


def claim(about, *evidence):
    """A claim: "table or figure | claim | effect in the paper, in points of its own data", then what decides it."""
    where, text, *paper = about.split(" | ")
    return Claim(where, text, "".join(paper), evidence)


def glyphs(name, effects, **options):
    """Evidence of a study of glyphs from scratch."""
    return study(GLYPHS, name, effects, **options)


def photos(effects, **options):
    """Evidence of the leaderboard of photo patches, where all layers of a network of ImageNet are trained."""
    return board(WHOLE_PHOTOS, effects, **options)


def features(figure, effects, **options):
    """Evidence of a figure of the robust losses over features of a network of ImageNet."""
    here = [tuple({"figure": figure, **side} for side in effect) for effect in effects]
    return study(PHOTO_FEATURES, "mining robust_features", here, **options)


def over(settings, better, worse):
    """One effect for each of the settings: `better` against `worse`."""
    return tuple(({**one, **better}, {**one, **worse}) for one in settings)


def each(better, others):
    """One effect for each of the others: `better` against it."""
    return tuple((better, one) for one in others)


def named(key, *values):
    """A dict of settings for each value."""
    return [{key: value} for value in values]


# Weighted contrastive
WEIGHTED, PLAIN = {"delta": 1.0}, {"delta": 0.0}
DESIGNS = [
    {"negatives": lambda_, "design": design}
    for lambda_ in (256.0, 64.0)
    for design in ("2x32", "4x16", "8x8", "16x4", "32x2")
]
CHOSEN = [{"chosen": 1, **design} for design in DESIGNS]
PAIRS = [{"negatives": 256.0, "design": f"{p}-random"} for p in (0.9, 0.5, 0.1)]
MANY_PAIRS = [{**one, "design": f"{one['design']}-2016"} for one in PAIRS]
EXPONENTS = [{"design": design, "negatives": lambda_} for design in ("4x16", "32x2") for lambda_ in (64.0, 256.0)]
SIZES = [{"per_class": 32, "removed": gamma / 10} for gamma in range(11)]
BALANCED = named("negatives", 64.0, 1.0, 8192.0)
INDUCED = named("labels", 129.0, 33.0, 676.0)


def spread(designs):
    """The spread over five designs, with weights against without, at each of two lambdas."""
    halves = (designs[:5], designs[5:])
    return [tuple(tuple({**one, **weights} for one in half) for weights in (WEIGHTED, PLAIN)) for half in halves]


WEIGHTED_CONTRASTIVE = (
    claim(
        "Table 1 | weights help every design of balanced batches | +0.9 to +14.5",
        glyphs(
            "importance_sampling batch_designs",
            over(CHOSEN, WEIGHTED, PLAIN),
            why="lambda = 256 is beyond the plateau here, and (2, 32) without weights has a good one by itself",
        ),
        study(
            GLYPH_FEATURES,
            "importance_sampling trained_start",
            over(DESIGNS, WEIGHTED, PLAIN),
            why="no design collapses without weights where the network stays as it was trained",
        ),
        study(WHOLE_GLYPHS, "importance_sampling whole_network", over(DESIGNS, WEIGHTED, PLAIN)),
        photos([("balanced contrastive", "balanced contrastive, no weights")], why="of one design, (4, 32)"),
    ),
    claim(
        "Table 1 | weights shrink the spread over designs | +12.7",
        glyphs("importance_sampling batch_designs", spread(CHOSEN)),
        study(GLYPH_FEATURES, "importance_sampling trained_start", spread(DESIGNS)),
        study(
            WHOLE_GLYPHS,
            "importance_sampling whole_network",
            spread(DESIGNS),
            why="to 0.34 and 0.39 of the spread without weights, in the paper to 0.36",
        ),
    ),
    claim(
        "Table 1 | weights help p-random pairs | +6.7 to +34.4",
        glyphs(
            "importance_sampling batch_designs",
            over([{"chosen": 1, **one} for one in PAIRS], WEIGHTED, PLAIN),
            why="126 pairs in a batch: weights of few pairs vary more",
        ),
        glyphs(
            "importance_sampling all_pairs",
            over(MANY_PAIRS, WEIGHTED, PLAIN),
            why="2,016 pairs in a batch are sixteen times the images",
        ),
        study(
            GLYPH_FEATURES,
            "importance_sampling trained_pairs",
            over(MANY_PAIRS, WEIGHTED, PLAIN),
            why="2,016 pairs in a batch",
        ),
        study(
            WHOLE_GLYPHS,
            "importance_sampling whole_pairs",
            over([{**one, "design": f"{one['design']}-252"} for one in PAIRS], WEIGHTED, PLAIN),
            why="252 pairs in a batch",
        ),
    ),
    claim(
        "Figure 1 | the exact weight is better than none",
        glyphs("importance_sampling exponent", over(EXPONENTS, WEIGHTED, PLAIN)),
    ),
    claim(
        "Figure 1 | the exact weight is better than its square",
        glyphs("importance_sampling exponent", over(EXPONENTS, WEIGHTED, {"delta": 2.0})),
    ),
    claim(
        "Figure 1 | the exact weight is better than any other: against 0.75",
        glyphs(
            "importance_sampling exponent",
            over(EXPONENTS, WEIGHTED, {"delta": 0.75}),
            why="with classes of one size an exponent below 1 is also a smaller lambda",
        ),
    ),
    claim(
        "Figure 1 | the same: against 0.5, 1.25 and 1.5",
        glyphs(
            "importance_sampling exponent",
            [effect for delta in (0.5, 1.25, 1.5) for effect in over(EXPONENTS, WEIGHTED, {"delta": delta})],
            why="it holds for the larger ones",
        ),
    ),
    claim(
        "Figure 2 | weights improve Recall@1 of the contrastive loss",
        glyphs("importance_sampling train_loss", over([{"step": 2000}], WEIGHTED, PLAIN)),
    ),
    claim(
        "Figure 2 | weights minimize the loss over all pairs further (times 100)",
        glyphs("importance_sampling train_loss", over([{"step": 2000}], PLAIN, WEIGHTED), key="full_loss"),
    ),
    claim(
        "Figure 3 | weights help at every imbalance of classes",
        glyphs("importance_sampling class_sizes", over(SIZES, WEIGHTED, PLAIN)),
    ),
    claim(
        "Figure 4 | Recall@1 has a plateau in lambda: 64 is ahead of both ends",
        glyphs(
            "importance_sampling negatives",
            over([{"loss": "balanced"}], BALANCED[0], BALANCED[1]) + over([{"loss": "balanced"}], *BALANCED[::2]),
        ),
    ),
    claim(
        "Figure 4 | so has the contrastive loss in its induced lambda: 129 classes are ahead of 33 and 676",
        glyphs("importance_sampling negatives", each(INDUCED[0], INDUCED[1:])),
    ),
)

# Gradient analysis
ALL_PAIRS, RAW, BINOMIAL = named("method", "multi-similarity", "RAW", "binomial deviance")
BINOMIAL_MINED = {"method": "binomial deviance, valid triplets"}
OTHERS = ("cascade (HDC)", "clustering", "ProxyNCA", "hierarchical triplet", "boosted (BIER)", "margin")
GRADIENT_ANALYSIS = (
    claim(
        "Table 1 | relative weights help, over all pairs: multi-similarity beats binomial deviance | +0.5 to +3.6",
        glyphs("mining weights", [(ALL_PAIRS, BINOMIAL)]),
        photos([("multi-similarity", "binomial deviance")]),
    ),
    claim(
        "Table 1 | mining adds to weighting | +0.7 to +4.1",
        glyphs(
            "mining weights",
            [(RAW, ALL_PAIRS), (BINOMIAL_MINED, BINOMIAL)],
            why="from scratch, fewer pairs reduce the recall",
        ),
        photos([("RAW", "multi-similarity")]),
    ),
    claim(
        "Table 1 | weighting adds to mining, for RAW and for binomial deviance | +0.2 to +7.1",
        glyphs(
            "mining weights",
            [(one, {"method": "valid triplets"}) for one in (RAW, BINOMIAL_MINED)],
            why="it holds for RAW",
        ),
    ),
    claim(
        "Table 1 | over valid triplets, relative weights are better than those of binomial deviance | +0.8 to +2.2",
        glyphs("mining weights", [(RAW, BINOMIAL_MINED)]),
        *(board(setting, [("RAW", "binomial, valid triplets")]) for setting in (PHOTOS, PHOTO_FEATURES)),
    ),
    claim(
        "Table 1 | valid triplets are better than other samplings | +0.8 to +3.2",
        glyphs("mining weights", each(RAW, named("method", "RAW, distance weighted", "RAW, semi-hard"))),
        photos([("RAW", "RAW, distance weighted")]),
    ),
    claim(
        "Section 1 | the lifted structure loss is better without easy pairs",
        glyphs("mining weights", [named("method", "lifted structure, valid triplets", "lifted structure")]),
    ),
    claim(
        "Tables 2, 3 | RAW is ahead of HDC, clustering, Proxy-NCA, HTL, BIER and margin | +1.7 to +27.5",
        *(board(setting, [("RAW", other) for other in OTHERS]) for setting in (PHOTOS, PHOTO_FEATURES)),
    ),
)

# Sampling matters
MINING = named("mining", "distance weighted", "semi-hard", "random")
DISTANCE, SEMI, RANDOM = MINING
PAIR_LOSSES = named("loss", "contrastive", "margin")
FOUR = named("loss", "contrastive", "triplet squared", "triplet", "margin")
BATCHES = [{"loss": "margin", "batch": batch} for batch in (40, 80, 120)]
TRIPLETS = [{"loss": "triplet", "batch": batch} for batch in (40, 80, 120)]
CURVE = {"per_class": 5, "step": 120}
AT_300 = {"loss": "margin", "step": 300}
SAMPLING_MATTERS = (
    claim(
        "Table 1 | distance-weighted sampling is better than random | +9.1 and +24.2",
        glyphs("mining samplings", over(PAIR_LOSSES, DISTANCE, RANDOM)),
        photos([("margin", "margin, random"), ("contrastive, distance weighted", "contrastive, random")]),
    ),
    claim(
        "Table 1 | the same for triplets, which the paper leaves out",
        glyphs("mining samplings", over(FOUR[1:3], DISTANCE, RANDOM)),
        photos([("triplet, distance weighted", "triplet, random")]),
    ),
    claim(
        "Table 1 | distance-weighted sampling is better than semi-hard | -10.2 to +7.1",
        glyphs("mining samplings", over(FOUR, DISTANCE, SEMI)),
        photos(
            [("margin", "margin, semi-hard"), ("triplet, distance weighted", "semi-hard triplet")],
            why="it holds for margin, and not for triplet",
        ),
    ),
    claim(
        "Table 1 | the margin loss is the best with distance-weighted sampling | +7.2 to +22.5",
        glyphs("mining samplings", each({**FOUR[3], **DISTANCE}, [{**one, **DISTANCE} for one in FOUR[:3]])),
        photos([("margin", "contrastive, distance weighted"), ("margin", "triplet, distance weighted")]),
    ),
    claim(
        "Section 5.1 | the margin loss is ahead whatever the sampling: random and semi-hard pairs | +7.4 to +13.6",
        glyphs(
            "mining samplings",
            over([RANDOM], FOUR[3], FOUR[0]) + tuple(e for one in FOUR[:3] for e in over([SEMI], FOUR[3], one)),
            why="it holds for random pairs",
        ),
        photos([("margin, random", "contrastive, random"), ("margin, semi-hard", "semi-hard triplet")]),
    ),
    claim(
        "Section 4 | a plain distance is better than a squared one, for distance-weighted triplets | +1.1",
        glyphs("mining samplings", over([DISTANCE], FOUR[2], FOUR[1])),
    ),
    claim(
        "Table 1 | a start from ImageNet is better than from scratch | +11.0",
        Evidence(
            WHOLE_PHOTOS, "studies.photo_starts", ("photo_starts.csv",), (tuple(named("start", "ImageNet", "random")),)
        ),
    ),
    claim(
        "Tables 2, 8 | distance-weighted is better than random at every batch size | +19.2 to +24.2",
        glyphs("mining batch_sizes", over(BATCHES, DISTANCE, RANDOM)),
    ),
    claim(
        "Tables 2, 8 | distance-weighted is better than semi-hard at every batch size | +0.4 to +8.6",
        glyphs("mining batch_sizes", over(BATCHES + TRIPLETS, DISTANCE, SEMI)),
    ),
    claim(
        "Tables 2, 8 | margin is ahead of triplets at every size, distance-weighted and semi-hard | +5.8 to +16.4",
        glyphs(
            "mining batch_sizes",
            [effect for one in BATCHES for effect in over(MINING[:2], one, {**one, "loss": "triplet"})],
        ),
    ),
    claim(
        "Table 3 | learned boundaries beat every fixed one | +1.6 to +11.4",
        glyphs(
            "mining boundaries",
            each({"boundary": "learned"}, named("boundary", 0.8, 1.0, 1.2, 1.4)),
            why="the best fixed one is the smallest of the four",
        ),
    ),
    claim(
        "Section 5.1 | boundaries per example are level with boundaries per class",
        glyphs("mining boundaries", [named("boundary", "learned, with one per example", "learned")], equal=True),
    ),
    claim(
        "Figure 6 | the margin loss converges faster: accuracy after 120 steps",
        glyphs(
            "verification curves",
            each({"loss": "margin", **CURVE}, [{"loss": loss, **CURVE} for loss in ("triplet", "contrastive")]),
            key="accuracy",
        ),
    ),
    claim(
        "Figure 8 | the threshold of the margin loss is the same for 2 and 10 images of a class (distance times 100)",
        glyphs("verification curves", over([AT_300], {"per_class": 2}, {"per_class": 10}), key="threshold", equal=True),
    ),
    claim(
        "Table 7 | the margin loss verifies best | -0.1 to +0.9",
        glyphs(
            "verification losses",
            each({"loss": "margin", "dim": 128}, named("loss", "softmax", "N-pairs", "triplet", "contrastive")),
            key="accuracy",
        ),
    ),
)

# Slides
MARGINS = [{"part": "test", "margin": margin} for margin in (0.1, 0.2, 0.5, 1.0, "soft")]
HARD, ALL_TRIPLETS, GIVEN = named("loss", "batch hard", "batch all", "triplet")
OFFLINE, TARGETED = named("loss", "triplet, mined offline", "triplet, mined offline, half of them active")
WITHOUT_SOFT = named(
    "loss", "batch hard, nonzero", "batch all, nonzero", "lifted, all positives", "lifted, one positive"
)


def against(offline):
    """All online mining against triplets that are mined offline, at each margin."""
    soft = [effect for loss in (HARD, ALL_TRIPLETS) for effect in over(MARGINS, loss, offline)]
    return soft + [effect for loss in WITHOUT_SOFT for effect in over(MARGINS[:-1], loss, offline)]


BRANCHES = [{"part": "test", "network": network} for network in ("two branches", "one branch")]
CLUSTERS = named("loss", "coupled clusters", "triplets")


def patches(*effects):
    """Evidence of pairs of networks of patches, (worse, better): FPR95, of which less is better."""
    pairs = tuple(tuple(named("network", *effect)) for effect in effects)
    why = "three seeds of three minutes"
    return Evidence(PHOTOS, "studies.patches", ("patches.csv",), pairs, key="fpr95", why=why)


SLIDES = (
    claim(
        "mining | batch hard is better than all triplets (MAP) | +1.7 to +5.7",
        glyphs("reidentification triplets", over(MARGINS, HARD, ALL_TRIPLETS), key="map"),
    ),
    claim(
        "mining | batch hard is better than one negative for each positive (MAP) | +17.4 to +24.3",
        glyphs("reidentification triplets", over(MARGINS, HARD, GIVEN), key="map"),
    ),
    claim(
        "mining | all online mining is better than offline mining (MAP) | -0.9 to +48.5",
        glyphs(
            "reidentification triplets",
            against(OFFLINE),
            key="map",
            why="offline mining collapses at every margin, unlike there",
        ),
    ),
    claim(
        "mining | the same over offline mining by `target=0.5`, which does not collapse (MAP)",
        glyphs("reidentification triplets", against(TARGETED), key="map"),
    ),
    claim(
        "vehicles | two branches, of the model and of the vehicle, are better than one (CMC@1)",
        glyphs("reidentification vehicles", over(CLUSTERS, *BRANCHES), key="cmc@1"),
    ),
    claim(
        "vehicles | coupled clusters are better than triplets (CMC@1)",
        glyphs("reidentification vehicles", over(BRANCHES, *CLUSTERS), key="cmc@1"),
    ),
    claim(
        "patches | 2-channel networks are ahead of (pseudo-)siamese ones, also of two streams (FPR95) | +3.4 to +4.4",
        patches(("siam", "2ch"), ("pseudo-siam", "2ch"), ("siam-2stream", "2ch-2stream")),
    ),
    claim(
        "patches | two streams, of the center and of the surround, are better than one (FPR95) | +1.4 to +2.4",
        patches(("siam", "siam-2stream"), ("2ch", "2ch-2stream")),
    ),
    claim(
        "losses | softmax wins on large datasets: it is ahead of multi-similarity with 1,744 classes of eight images",
        study(
            PHOTO_FEATURES,
            "leaderboard scaling",
            over(
                [{"axis": "training_classes", "training_classes": 1744}],
                *named("loss", "normalized softmax", "multi-similarity"),
            ),
            why="eight images of a class are few for a softmax",
        ),
    ),
)

# Robust pairs
ROBUST = named("mining", "top k", "top k balanced", "KL")
ROBUST_NAMES = ("TopK", "TopK-PN", "KL")
MARGIN_BASE = named("method", "TopK, margin", "TopK-PN, margin", "KL, margin")
BINOMIAL_BASE = named("method", "TopK, binomial", "TopK-PN, binomial")
LIFTED, GROUPED = named("method", "lifted structure", "grouped KL, gamma = 1")
COLD = named("method", *(f"grouped KL, gamma = {gamma}" for gamma in ("0.1", "0.01", "0.001")))
KEPT, OPEN = named("method", "all pairs, zero losses kept", "a margin of 4, no loss is zero")
IN_640 = [({**one, "batch": 640}, {**DISTANCE, "batch": 640}) for one in ROBUST]
TIMED = [{"batch": batch, "dim": 1024} for batch in (80, 160, 320, 480, 640)]
ROBUST_PAIRS = (
    claim(
        "Tables 1, 3, Figure 4 | robust losses over the margin loss are better than RAW | +1.1 to +2.3",
        glyphs("mining robust_losses", [(one, RAW) for one in MARGIN_BASE]),
        photos([(one, "RAW") for one in ROBUST_NAMES], why="four trials: K of 512 or 2,048, gamma of 0.1 or 1"),
        study(
            PHOTO_FEATURES,
            "mining robust_values",
            [tuple({"part": "test", "loss": f"{name}, 24 trials"} for name in (one, "RAW")) for one in ROBUST_NAMES],
            why="24 trials of each: K of 512 to 4,096, gamma of 0.1 to 3, rates up to 0.03",
        ),
    ),
    claim(
        "Tables 1, 3, Figure 4 | the same over binomial deviance | +1.0 to +2.4",
        glyphs("mining robust_losses", [(one, RAW) for one in BINOMIAL_BASE]),
        photos([("TopK of binomial", "RAW")], why="of one of the two; TopK-PN was not trained here"),
        board(PHOTO_FEATURES, [(f"{one} of binomial", "RAW") for one in ROBUST_NAMES[:2]]),
    ),
    claim(
        "Tables 2, 4 | grouped KL at gamma = 1 equals the lifted structure loss | -0.4 to +2.2",
        glyphs(
            "mining temperatures",
            [(GROUPED, LIFTED)],
            equal=True,
            why="satisfied pairs have no gradient, and are left out of the weights, as in the paper",
        ),
    ),
    claim(
        "Tables 2, 4 | the same where pairs of zero loss keep their weight",
        glyphs(
            "mining zero_losses",
            [(KEPT, LIFTED)],
            beside=("mining temperatures",),
            equal=True,
            why="a satisfied pair has no gradient; the lifted structure loss still pulls or pushes it",
        ),
    ),
    claim(
        "Tables 2, 4 | the same where no pair has zero loss",
        glyphs(
            "mining zero_losses",
            [(OPEN, LIFTED)],
            beside=("mining temperatures",),
            equal=True,
            why="the gradients are equal",
        ),
    ),
    claim(
        "Tables 2, 4 | a smaller temperature is better than 1 | +0.3 to +4.5",
        glyphs("mining temperatures", [(one, GROUPED) for one in COLD]),
    ),
    claim(
        "Tables 2, 4 | multi-similarity is better than the lifted structure loss | -2.8 to +3.5",
        glyphs("mining temperatures", [(ALL_PAIRS, LIFTED)]),
        photos([("multi-similarity", "lifted structure")]),
    ),
    claim(
        "Figure 1 | in batches of 640, robust losses are ahead of distance-weighted sampling",
        glyphs("mining imbalance", IN_640, why="equal images, so 187 steps"),
        features(1, IN_640, why="equal images, so 100 steps"),
    ),
    claim(
        "Figure 1 | with 187 steps each, robust losses gain from 80 to 640 images",
        glyphs(
            "mining equal_steps",
            [({**one, "batch": 640}, {**one, "batch": 80, "steps": 187}) for one in ROBUST],
            beside=("mining imbalance",),
            why="with equal images, 80 images have 1,500 steps",
        ),
    ),
    claim(
        "Figure 1 | with 187 steps each, distance-weighted sampling loses from 80 to 640 images",
        glyphs(
            "mining equal_steps",
            [({**DISTANCE, "batch": 80, "steps": 187}, {**DISTANCE, "batch": 640})],
            beside=("mining imbalance",),
        ),
    ),
    claim(
        "Figure 5 | with half of the dimensions, robust losses are ahead of distance-weighted sampling at 640 images",
        glyphs("mining dimensions", IN_640),
        features(5, IN_640),
    ),
    claim(
        "Figure 2 | K may be anything from 640 to 2,560",
        glyphs(
            "mining top_k",
            each({"taken": 1280.0}, named("taken", 640.0, 960.0, 1600.0, 1920.0, 2560.0)),
            equal=True,
            why="from scratch a batch must train on many of its pairs",
        ),
        features(2, each({"taken": 1280.0}, named("taken", 640.0, 2560.0)), equal=True, why="640 and 2,560 alone"),
    ),
    claim(
        "Figure 3 | robust losses need less time than distance-weighted sampling and lifted structure",
        Evidence(
            "",
            "benchmarks.robust",
            ("robust.csv",),
            tuple(
                effect
                for one in ROBUST
                for anchored in ("distance weighted", "lifted structure")
                for effect in over(TIMED, {"method": anchored}, {"method": one["mining"]})
            ),
            key="xla_ms",
            unit=1.0,
            why="milliseconds with XLA, five sizes of a batch: ahead of the sampling, not of the lifted loss",
        ),
    ),
)

PAPERS = {
    "Weighted contrastive": WEIGHTED_CONTRASTIVE,
    "Gradient analysis": GRADIENT_ANALYSIS,
    "Sampling matters": SAMPLING_MATTERS,
    "Slides": SLIDES,
    "Robust pairs": ROBUST_PAIRS,
}
