"""Table 1 from a trained network, p-random batches: as `trained_start` and `whole_network`, which say what is trained.

Over fixed features, batches of 2,016 pairs of 4,032 images are cheap, as many pairs as a group batch has. The whole
network is trained with 252 pairs, and the same shares of positives; `all_pairs` is 2,016 from random weights.
"""

from dataclasses import replace

from studies.importance_sampling import trained_start, whole_network
from studies.importance_sampling.all_pairs import PAIRS
from studies.importance_sampling.batch_designs import PAIRS as DESIGNS
from studies.importance_sampling.batch_designs import table


class Pairs:
    """The study of a number of pairs: the module of its runs, and what is smaller in a quick one."""

    def __init__(self, module, pairs, title, **quick):
        self.module, self.pairs, self.title, self.quick = module, pairs, title, quick

    def rows(self, options):
        """One row per run: each share of positives, without and with weights, with the lambda of the paper."""
        quick = {"steps": 20, "classes": 40, **self.quick} if options.quick else {}
        train, train_seeds = self.module.train, getattr(self.module, "train_seeds", None)
        base, rates = self.module.Run(**quick), self.module.RATES
        options = replace(options, base=base, train=train, train_seeds=train_seeds, rates=rates)
        designs = [f"{design}-{8 if quick else self.pairs}" for design in DESIGNS]
        return trained_start.rows_of_designs(options, designs, lambdas=(256.0,))

    def tables(self, rows):
        """Recall@1 of each share of positives, and its spread."""
        return {self.title: table(rows)}


OF_FEATURES = Pairs(trained_start, PAIRS, "trained pairs")
OF_WHOLE = Pairs(whole_network, 252, "whole pairs", channels="4-8")
