/* The ranks of the search: titles that say the words of the query, then guides, then rows, cards and studies. */
const asked = new URLSearchParams(location.search).get("q")?.toLowerCase().match(/[\w.]+/g) ?? [];
const last = /^(benchmarks|savedmodels|studies|CHANGELOG|CONTRIBUTING|docs\/(claims|leaderboard|versions|public-sets))/;

function inTitle(title) {
  const words = title.toLowerCase().match(/[\w.]+/g) ?? [];
  const shared = asked.filter((word) => words.some((other) => other.startsWith(word)));
  return asked.length && words.length ? shared.length / asked.length + shared.length / words.length : 0;
}

var Scorer = {
  score: ([page, title, , , score]) => {
    const weight = last.test(page) ? 0.1 : page.startsWith("docs/api") ? 0.5 : 1;
    return weight * (score + 20 * inTitle(title));
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
