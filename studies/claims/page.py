"""The tables of docs/claims.md, from the committed rows; `python -m studies.tables` writes them."""

from studies import pages, runner
from studies.claims import relative
from studies.claims.evidence import BOARDS, SETTINGS
from studies.claims.headlines import COMPARISONS, HEADLINES, headline_evidence, on_board
from studies.claims.papers import PAPERS

PAGE = pages.ROOT / "docs" / "claims.md"
HEAD = ("where", "claim", "in the paper", "setting", "verdict", "effect", "rows", "why")


def tables():
    """Name to table, for each table of the page."""
    papers = {f"claims of {paper}": of_paper(claims) for paper, claims in PAPERS.items()}
    return {"headlines": headlines(), "comparisons": comparisons(), "relative": relative.table(), **papers}


def headlines():
    """The verdict on each headline in each setting, with its effects."""

    def cell(effects, setting):
        evidence = headline_evidence(effects, setting)
        return f"**{evidence.verdict()}** {effects_text(evidence.intervals(), ends=False)}" if evidence else ""

    body = [[text, *(cell(effects, setting) for setting in SETTINGS)] for text, effects in HEADLINES.items()]
    return runner.markdown(("claim", *SETTINGS), body)


def comparisons():
    """The difference of two methods on each board, bold where its interval is above 0."""

    def cell(better, worse, setting):
        evidence = on_board(setting, [(better, worse)])
        if evidence is None:
            return ""
        ((mean, low, high),) = evidence.intervals()
        text = f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
        return f"**{text}**" if low > 0 else text

    body = [
        [f"{better}, minus {worse}", paper, *(cell(better, worse, setting) for setting in BOARDS)]
        for better, worse, paper in COMPARISONS
    ]
    return runner.markdown(("difference", "in the paper", *BOARDS), body)


def of_paper(claims):
    """One line for each setting of each claim."""
    return runner.markdown(HEAD, [line for claim in claims for line in lines(claim)])


def lines(claim):
    """The cells of a claim: its text stands in the first of its lines."""
    made = []
    for evidence in claim.evidence:
        about = (claim.where, claim.text, claim.paper) if not made else ("", "", "")
        verdict = evidence.verdict()
        effect = "" if verdict == "not run" else effects_text(evidence.intervals())
        made.append([*about, evidence.setting, verdict, effect, f"`{evidence.command}`", evidence.why])
    return made


def effects_text(intervals, *, ends=True):
    """The effect, or the smallest and the largest of several, as text; each with the ends of its interval, if any."""

    def text(mean, low, high):
        return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]" if ends and low < high else f"{mean:+.1f}"

    ordered = sorted(intervals)
    shown = ordered[:1] + ordered[1:][-1:]
    number = f", of {len(intervals)}" if len(intervals) > 2 else ""
    return " to ".join(text(*one) for one in shown) + number


def filled(page):
    """The text of the page with its tables filled from the rows."""
    for name, table in tables().items():
        page = pages.replaced(page, f"<!-- {name} -->", table)
    return page
