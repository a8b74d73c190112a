"""What stops a plan, in one line for the one who asked."""


class PlanError(ValueError):
    """Something given is not what it must be: no number, no such key, a wrong unit."""


class NotModelledError(PlanError):
    """What was given is sound, and this model of memory does not cover it: better unknown than
    wrong."""
