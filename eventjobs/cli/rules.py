"""Rules of retention on the command line."""

from __future__ import annotations

import click

from eventjobs.domain.retention import BadRules, Rules, parse_rules


class _Rules(click.ParamType):
    name = "rules"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Rules:
        if isinstance(value, Rules):
            return value
        try:
            return parse_rules(str(value))
        except BadRules as error:
            self.fail(str(error), param, ctx)


RULES = _Rules()
