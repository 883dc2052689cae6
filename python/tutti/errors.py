"""The exceptions of the package: one class for each canonical code of gRPC, with the codes that Tutti's servers send."""


class TuttiError(Exception):
    """What Tutti refuses or could not do.

    Attributes:
        code: machine-readable, as in the servers' answers ("context_length_exceeded"; docs/http.md has all).
        param: the parameter at fault, or "".
        message: what is wrong, with the numbers.
    """

    def __init__(self, message: str, code: str = "internal_error", param: str = ""):
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param

    def __reduce__(self) -> tuple[type["TuttiError"], tuple[str, str, str]]:  # exceptions cross the borders of processes
        return type(self), (self.message, self.code, self.param)

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class InvalidArgumentError(TuttiError, ValueError):
    """A parameter has no valid value."""


class NotFoundError(TuttiError, FileNotFoundError):
    """There is no such model or file."""

    def __str__(self) -> str:  # OSError has another one
        return TuttiError.__str__(self)


class ResourceExhaustedError(TuttiError):
    """The queue is full, or memory is short."""


class DeadlineExceededError(TuttiError, TimeoutError):
    """The time limit of the request has passed."""

    def __str__(self) -> str:
        return TuttiError.__str__(self)


class CancelledError(TuttiError):
    """The request was cancelled."""


class FailedPreconditionError(TuttiError):
    """The model, as it was loaded, cannot do this."""


class UnavailableError(TuttiError):
    """The model cannot answer now."""


class UnimplementedError(TuttiError, NotImplementedError):
    """Tutti does not support this."""


class DataLossError(TuttiError):
    """A file is damaged."""


class InternalError(TuttiError):
    """A fault of Tutti."""


_BY_STATUS = {1: CancelledError, 3: InvalidArgumentError, 4: DeadlineExceededError, 5: NotFoundError, 8: ResourceExhaustedError,
              9: FailedPreconditionError, 11: InvalidArgumentError, 12: UnimplementedError, 13: InternalError, 14: UnavailableError,
              15: DataLossError}


def of_status(status: int) -> type[TuttiError]:
    """The class for a canonical code of gRPC."""
    return _BY_STATUS.get(status, TuttiError)
