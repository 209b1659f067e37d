"""Tables 1 and 3, Figure 4 of "A simple and effective framework": do robust losses beat the multi-similarity loss?

TopK, balanced TopK and KL over the margin loss on similarities and over binomial deviance, beside the multi-similarity
loss with its miner (RAW), as in the paper, and over all pairs; batches of 80 images, five seeds. With the best learning
rate, the paper's values are tried for K, the number of pairs of TopK, and for the temperature of KL.
"""

from dataclasses import replace

from studies import runner

SEEDS = (0, 1, 2, 3, 4)
TAKEN = (160, 200, 240, 280)  # K of section 4.1, in pairs
GAMMAS = (0.1, 0.3, 0.5, 0.7, 0.9)
UNTUNED = ", K = 160 or gamma = 0.1"
METHODS = {
    "RAW": {"loss": "multi-similarity", "mining": "valid triplets"},
    "multi-similarity": {"loss": "multi-similarity", "mining": "all"},
    "TopK, margin": {"loss": "margin on similarities", "mining": "top k"},
    "TopK-PN, margin": {"loss": "margin on similarities", "mining": "top k balanced"},
    "KL, margin": {"loss": "margin on similarities", "mining": "KL"},
    "TopK, binomial": {"loss": "binomial", "mining": "top k"},
    "TopK-PN, binomial": {"loss": "binomial", "mining": "top k balanced"},
}


def rows(options):
    """One row per run."""
    options = options if options.quick else replace(options, seeds=SEEDS)
    names = runner.some(METHODS, options)
    tuned_runs = runner.tuned([replace(options.base, **METHODS[name]) for name in names], options)
    runs = {}
    for name, tuned in zip(names, tuned_runs, strict=True):
        runs[name] = runner.best(trials(tuned), options)
        if runs[name] != replace(tuned, seed=runs[name].seed):
            runs[name + UNTUNED] = tuned
    return [{"method": name, **row} for name, run in runs.items() for row in runner.repeated([run], options)]


def trials(run):
    """The run with each value that the paper tries for its K or its temperature."""
    if run.mining in ("top k", "top k balanced"):
        return [replace(run, k=2 * pairs) for pairs in TAKEN]  # both orders of each pair
    return [replace(run, gamma=gamma) for gamma in GAMMAS] if run.mining == "KL" else [run]


def tables(rows):
    """Recall of each method, with its best K or gamma."""
    methods = dict.fromkeys(row["method"] for row in rows if " or gamma = " not in row["method"])
    return {"robust losses": runner.recalls(rows, by=("method", methods))}
