"""Commands that say all that is wrong with how they were called, and not only what was found first."""

from __future__ import annotations

import click


class ReportingCommand(click.Command):
    """As click's, but a usage error names every parameter whose value cannot be taken."""

    @classmethod
    def of(cls, command: click.Command) -> ReportingCommand:
        """The same command, reporting."""
        return cls(
            command.name,
            callback=command.callback,
            params=command.params,
            help=command.help,
            short_help=command.short_help,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as first:
            faults = self._faults(ctx, given)
            if len(faults) < 2:
                raise
            lines = "\n".join(f"  {fault.format_message()}" for fault in faults)
            raise click.UsageError(f"{len(faults)} parameters cannot be taken:\n{lines}", ctx) from first

    def _faults(self, ctx: click.Context, given: list[str]) -> list[click.BadParameter]:
        values, rest, _ = self.make_parser(ctx).parse_args(args=given)
        faults = []
        for param in self.get_params(ctx):
            try:
                _, rest = param.handle_parse_result(ctx, values, rest)
            except click.BadParameter as fault:
                faults.append(fault)
        return faults
