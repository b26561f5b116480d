"""What the targets of a run honour, asked once before its load where the campaign wants it."""

from collections.abc import Callable

from loadstone.campaign.planning.plan import Plan
from loadstone.errors import LeftBehindError, LoadstoneError, TargetError
from loadstone.execution.events import CardFailed, CardMade, CardStarted, Event
from loadstone.execution.interrupt import Interrupt
from loadstone.results.writer import RunWriter


def make_cards(
    plan: Plan, writer: RunWriter, listen: Callable[[Event], None], interrupt: Interrupt
) -> list[LoadstoneError]:
    """Make the cards that a plan asks for and its run has not yet; return what went wrong.

    A target that could not be asked is noted with the reason: the trials go on without its card.
    """
    if not plan.cards:
        return []
    from loadstone.card.making import make_card  # 20 modules that few runs need

    problems: list[LoadstoneError] = []
    for target in plan.cards:
        name = target["name"]
        cards = writer.manifest.get("cards") or {}
        if name in cards or interrupt.is_asked:
            continue
        listen(CardStarted(target=name))
        left: list[str] = []
        try:
            card = make_card(target, say_left=left.append, say_freed=lambda line: None)
        except TargetError as error:
            problems.append(error)
            failed = writer.manifest.get("cards_failed") or {}
            writer.amend({"cards_failed": {**failed, name: error.message}})
            listen(CardFailed(target=name, reason=error.message))
        else:
            writer.amend({"cards": {**cards, name: card}})
            listen(CardMade(card=card))
        problems += [LeftBehindError(f'target "{name}": the card left {line}') for line in left]
    return problems
