"""Compare B with A: how much faster, with a confidence interval, case by case and together.

The ratio is always B over A. A single run compares its targets, the first with each of the others;
with --factor, it compares the values of a swept parameter: "none", or else the lowest, with each of
the others. RUN@TARGET is one target of a run, published:NAME a published report, and FORMAT:FILE a
file of another tool.

A ratio compares runs that differ only in their target. If anything else differs, the ratio is
refused, and the fields are named. --factor names the field that is compared.

Exit codes: 0, a case has a ratio; 4, all cases are void; 1, the comparison is refused or fails.

\b
Examples:
  loadstone compare runs/monday runs/tuesday
  loadstone compare runs/monday runs/tuesday -o difference.html
  loadstone compare runs/two-targets
  loadstone compare runs/sweep --factor encryption
  loadstone compare runs/two-targets@ceph runs/two-targets@minio -f json
  loadstone compare runs/few-threads runs/many-threads --factor threads
  loadstone compare runs/mine@ceph published:hummingbird@Ceph --factor workload \\
      --factor nodes --only "workload=Ceph Performance lab" --only nodes=5
  loadstone compare published:theflash-ssd published:theflash-ceph
  loadstone compare fio:before.json fio:after.json
"""

import json
import operator
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from loadstone.analysis.accounts import claims, comparison
from loadstone.analysis.accounts.account import ACTION_RATE, Account, Parameter
from loadstone.analysis.accounts.comparison import CaseComparison, Comparison
from loadstone.analysis.naming import (
    describe_parameter,
    metric_words,
    varied_parameters,
)
from loadstone.analysis.statistics.ratios import TOGETHER
from loadstone.cli import completion, exit_code, plain
from loadstone.cli.flags import Overwrite
from loadstone.cli.screen.output import write_files
from loadstone.errors import InputError, LoadstoneError

FORMATS = {"": "terminal", ".json": "json", ".html": "html"}


def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run folders, RUN@TARGET, or published:NAME.",
            metavar="A [B...]",
            autocompletion=completion.runs,
        ),
    ],
    form: Annotated[
        str | None, typer.Option("--format", "-f", help="terminal, json or html.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File; its ending gives the format: .html, .json."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="requests_per_s, bytes_per_s, seconds, service_ns_p99 and the like; of scripts"
            " actions_per_s, actions_busy_per_s, action_ns_p99 and the like."
        ),
    ] = None,
    factor: Annotated[
        list[str] | None,
        typer.Option(
            help="Factor to compare, which may differ: threads, size, workload, verify,"
            " loadstone and the like; repeatable."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Only cases with this fact, on a side that has it: nodes=5,"
            " operation=upload. Repeatable.",
        ),
    ] = None,
    insist: Annotated[
        bool, typer.Option(help="Compare runs that are not comparable; labelled NONCOMPARABLE.")
    ] = False,
    overwrite: Overwrite = False,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 1,
    full: Annotated[
        bool, typer.Option("--full", help="Also void cases, and the method of each ratio.")
    ] = False,
) -> None:
    form = form or FORMATS.get(output.suffix.lower() if output is not None else "", "terminal")
    if form not in FORMATS.values():
        raise InputError.of_value(form, f"a format: {', '.join(FORMATS.values())}")
    if form == "terminal" and output is not None:
        raise InputError.of_value(str(output), "a file that ends in .html or .json")
    pairs, controls = _arms(runs, factor or ())
    facts = [_fact(text) for text in only or ()]
    _check_facts(facts, pairs)
    pairs = [(_narrowed(a, facts), _narrowed(b, facts)) for a, b in pairs]
    twins = {pair for account in controls for pair in account.identical}
    comparisons = [
        comparison.compare(
            a,
            b,
            metric=metric,
            seed=seed,
            is_insisted=insist,
            controls=controls,
            factors=factor or (),
        )
        for a, b in pairs
    ]
    refused = [
        compared for compared in comparisons if compared.refused and not compared.is_overridden
    ]
    if form == "json":
        documents = [claims.to_json(compared) for compared in comparisons]
        shown = documents[0] if len(documents) == 1 else {"format": 1, "pairs": documents}
        _give(
            json.dumps(shown, indent=2, ensure_ascii=False) + "\n", output, may_overwrite=overwrite
        )
    elif form == "html":
        # A page about incomparable runs could be mistaken for a comparison.
        if refused:
            raise _refusal(refused[0])
        from loadstone.report.formats.comparison_page import render_comparisons

        _give(render_comparisons(comparisons, twins).decode(), output, may_overwrite=overwrite)
    else:
        for compared in comparisons:
            if compared in refused:
                # This pair's error reports the difference.
                continue
            _print(compared, is_control=(compared.a, compared.b) in twins, is_full=full)
            if compared.by_user_type is not None:
                _print_types(compared.by_user_type, is_full=full)
    if refused:
        raise _refusal(refused[0])
    if not any(case.has_ratio for pair in comparisons for case in pair.comparisons):
        if form == "terminal":
            _print_next(runs)
        raise typer.Exit(exit_code.VOID)


def _print_next(runs: Sequence[str]) -> None:
    """Print where to look when no case has a ratio."""
    from loadstone.cli.accounts import split_target

    print(" → next   see the limit of each number, or why it is invalid:")
    for name in dict.fromkeys(split_target(run)[0] for run in runs):
        command = ["report", name, "--full"] if Path(name).is_dir() else ["analyse", name]
        print(f"   {shlex.join(['loadstone', *command])}")


def _give(text: str, output: Path | None, *, may_overwrite: bool) -> None:
    if output is None:
        print(text, end="")
        return
    write_files({output: text.encode()}, may_overwrite=may_overwrite)
    print(f"written: {output}", file=sys.stderr)


def _fact(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError.of_value(text, "a fact of a case, such as nodes=5")
    return name, value


def _check_facts(
    facts: Sequence[tuple[str, str]], pairs: Sequence[tuple[Account, Account]]
) -> None:
    """Refuse a fact that no case has; ignoring it would compare the wrong cases."""
    cases = [
        dict(m.case)
        for pair in pairs
        for account in pair
        for m in (*account.measurements, *account.of_user_types)
    ]
    for name, value in facts:
        known = dict.fromkeys(str(case[name]) for case in cases if name in case)
        if value not in known:
            names = dict.fromkeys(key for case in cases for key in case)
            hint = (
                f"values of {name}: {', '.join(known)}" if known else f"facts: {', '.join(names)}"
            )
            raise InputError(f'no case has {name} "{value}" (--only {name}={value})', hint)


def _narrowed(account: Account, facts: Sequence[tuple[str, str]]) -> Account:
    """Keep the cases with the requested values; a fact that no case has removes none."""
    for name, value in facts:
        having = _having(account, name, _is_written(value))
        account = replace(
            account,
            measurements=having.measurements or account.measurements,
            of_user_types=having.of_user_types or account.of_user_types,
        )
    return account


def _is_written(value: str) -> Callable[[Parameter], bool]:
    return lambda parameter: str(parameter) == value


def _having(account: Account, name: str, is_right: Callable[[Parameter], bool]) -> Account:
    return account.where(lambda measurement: is_right(dict(measurement.case).get(name)))


def _arms(
    names: list[str], factors: Sequence[str]
) -> tuple[list[tuple[Account, Account]], tuple[Account, ...]]:
    """Return the pairs to compare, and the whole runs that may contain an A/A control."""
    from loadstone.cli.accounts import read_account, read_whole, split_target

    accounts = [read_account(name) for name in names]
    if len(accounts) == 1:
        (whole,) = accounts
        levels = _levels(whole, factors)
        if len(levels) > 1:
            return [(levels[0], level) for level in levels[1:]], (whole,)
        twins = {second for _, second in whole.identical}
        targets = [target for target in whole.targets if target not in twins]
        if len(targets) == 1 and twins:
            # The run contains only an A/A control, so that is compared.
            targets = list(whole.identical[0])
        if len(targets) < 2:
            varied = _varied(whole)
            raise InputError(
                f'"{names[0]}" has one target'
                + (f" and one value of {', '.join(factors)}" if factors else "")
                + ", so there is nothing to compare it with",
                "give a second run: loadstone compare A B"
                + (f"; or compare the values of a sweep: --factor {varied[0]}" if varied else ""),
            )
        arms = [whole.only(target) for target in targets]
        return [(arms[0], arm) for arm in arms[1:]], (whole,)
    wholes = dict.fromkeys(whole for whole, target in map(split_target, names) if target)
    controls = tuple(read_whole(whole) for whole in wholes)
    return [(accounts[0], other) for other in accounts[1:]], controls


def _levels(whole: Account, factors: Sequence[str]) -> list[Account]:
    """Return a run's cases by the values of the swept factor: "none" or the lowest first."""
    name = next((name for name in factors if name in _varied(whole)), None)
    if name is None:
        return []
    values = {dict(m.case)[name] for m in whole.measurements if name in dict(m.case)}
    return [
        replace(
            _having(whole, name, partial(operator.eq, value)),
            name=describe_parameter(name, value).removeprefix(f"{name.replace('_', ' ')} "),
        )
        for value in sorted(values, key=_place)
    ]


def _place(value: Parameter) -> tuple[bool, float, str]:
    """Return the sort key of a parameter's value, because the plan's order is random."""
    number = float(value) if isinstance(value, (int, float)) else 0.0
    return value not in (None, "none"), number, str(value)


def _varied(whole: Account) -> list[str]:
    """Return the parameters with several values in a run."""
    return varied_parameters(measurement.parameters for measurement in whole.measurements)


def _print(compared: Comparison, *, is_control: bool, is_full: bool) -> None:
    unit = claims.plural(compared.unit_of_replication)
    print(f"{compared.b} against {compared.a}: {metric_words(compared.metric)}")
    if "_ns_" in compared.metric:
        print(f"of all requests of the {unit} together")
    else:
        print(f"geometric means over the {unit}")
    if compared.metric == ACTION_RATE:
        print("for the requests of the actions: --metric requests_per_s")
    for factor in compared.factors:
        print(f"compared by {factor}")
    if compared.refused:
        label = comparison.NONCOMPARABLE if compared.is_overridden else "not comparable"
        print(f"{label}: they differ in")
        for difference in compared.refused:
            print(f"  {difference}")
    if compared.kinds:
        print("of different kinds, by their cards:")
        for kind in compared.kinds[: claims.KINDS_SHOWN]:
            print(plain(f"  {kind}"))
        if (more := len(compared.kinds) - claims.KINDS_SHOWN) > 0:
            print(f"  {more} more: --format json")
    if not compared.comparisons:
        print()
        return
    _print_cases(compared, is_full=is_full)
    together = compared.geometric_mean
    if together is not None and sum(case.has_ratio for case in compared.comparisons) > 1:
        interval = _interval(together.low, together.high, 3)
        interval = f" (95 % CI {interval})" if interval else ""
        print(f"{TOGETHER}: {together.ratio:.3f}{interval}")
    _print_words(claims.caveats(compared, is_control=is_control))
    _print_sentences(compared, is_full=is_full)


def _print_types(compared: Comparison, *, is_full: bool) -> None:
    """Print the rows of user types, below those of all users."""
    print(
        "the same by type of user; ALL is all of its actions except the creation of"
        " users and audits"
    )
    _print_cases(compared, is_full=is_full)
    _print_words([claims.undecided_words(compared), *claims.without_partner(compared)])
    _print_sentences(compared, is_full=is_full)


def _print_words(lines: Iterable[str]) -> None:
    for line in filter(None, lines):
        print(line)


def _print_sentences(compared: Comparison, *, is_full: bool) -> None:
    if is_full:
        for case in compared.comparisons:
            print(f"  {claims.sentence(compared, case)}")
    print()


def _print_cases(compared: Comparison, *, is_full: bool) -> None:
    """Print a row for each case that has a ratio; --full adds its interval and p."""
    from loadstone.cli.screen.output import print_table, print_words
    from loadstone.report.result_words import compared_note, compared_words

    shared = _shared_keys(compared)
    shown = [case for case in compared.comparisons if is_full or case.has_ratio]
    if shared and len(shown) > 1:
        print(f"all of {claims.describe(compared.comparisons[0], _other_keys(compared, shared))}")
    head = ["case", compared.a, compared.b, f"{compared.b} is"]
    rows = [
        [
            claims.describe(case, shared) or "all",
            *compared_words(compared, case),
            claims.in_words(case),
        ]
        for case in shown
    ]
    if is_full:
        head += ["ratio", "95 % CI", "n", "p (Holm)"]
        rows = [[*row, *_numbers(case)] for row, case in zip(rows, shown, strict=True)]
    if rows:
        print_table(head, rows, numbers=(1, 2))
        _print_words([compared_note(compared, shown)])
    if words := claims.without_ratio_words(compared):
        print_words(words, below="  ")


def _shared_keys(compared: Comparison) -> set[str]:
    """Return the keys with the same value in all cases, which the table omits."""
    cases = [{**case.case, claims.TARGET: case.target} for case in compared.comparisons]
    if len(cases) < 2:
        return set()
    return {key for key, value in cases[0].items() if all(c.get(key) == value for c in cases)}


def _other_keys(compared: Comparison, shared: set[str]) -> set[str]:
    return {claims.TARGET, *(key for case in compared.comparisons for key in case.case)} - shared


def _numbers(case: CaseComparison) -> list[str]:
    interval = _interval(case.ratio.low, case.ratio.high, 3)
    return [f"{case.ratio.ratio:.3f}", interval, *claims.numbers_words(case)]


def _interval(low: float | None, high: float | None, digits: int) -> str:
    return "" if low is None or high is None else f"{low:.{digits}f}-{high:.{digits}f}"


def _factor_of(field: str) -> str:
    """Return a field's name as a factor."""
    return shlex.quote(field.rpartition(": ")[2].rpartition(".")[2].removeprefix("setting "))


def _refusal(compared: Comparison) -> LoadstoneError:
    fields = "; ".join(map(str, compared.refused[:6]))
    more = f"; and {len(compared.refused) - 6} more" if len(compared.refused) > 6 else ""
    names = dict.fromkeys(_factor_of(difference.field) for difference in compared.refused[:6])
    factors = " ".join(f"--factor {name}" for name in names)
    hint = f"make them agree, or name all that is compared: {factors}"
    if not (compared.only_a and compared.refused[0].field in compared.only_a[0]):
        hint += "; or pass --insist, for ratios labelled NONCOMPARABLE"
    return InputError(
        f'"{compared.a}" and "{compared.b}" are not comparable: they differ in {fields}{more}', hint
    )
