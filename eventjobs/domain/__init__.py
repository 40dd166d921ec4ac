"""The pure core: what a job is, what may happen to it, and what each fact means.

Nothing here reads a clock, draws a random number or touches a disk. Everything that is not determined by the
past of a job (time, ids, jitter, who asks) arrives inside a command.
"""
