"""Refusals in vLLM's words and form."""

from __future__ import annotations

from http import HTTPStatus

from proxy.simulator.log_lines import ENGINE_DEAD


class ApiError(Exception):
    """An answer that is an error. `type_` and `param` are the fields of its body."""

    def __init__(
        self,
        status: int,
        message: str,
        type_: str = "BadRequestError",
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type_ = type_
        self.param = param

    def body(self) -> dict[str, object]:
        """The form of every route but Anthropic's; `code` is a number, unlike OpenAI's."""
        fields = {
            "message": self.message,
            "type": self.type_,
            "param": self.param,
            "code": self.status,
        }
        return {"error": fields}

    def anthropic_body(self) -> dict[str, object]:
        return {"type": "error", "error": {"type": self.type_, "message": self.message}}


def bad_request(message: str, param: str | None = None, value: object = None) -> ApiError:
    """400 for a field whose value makes no sense; the message names both, as vLLM's do."""
    facts = [f"parameter={param}"] if param is not None else []
    facts += [f"value={value}"] if value is not None else []
    suffix = f" ({', '.join(facts)})" if facts else ""
    return ApiError(HTTPStatus.BAD_REQUEST, message + suffix, param=param)


def unreadable(message: str, param: str | None) -> ApiError:
    """400 for a body that does not have the form it must have."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, HTTPStatus.BAD_REQUEST.phrase, param)


def model_not_found(asked: str, served: str) -> ApiError:
    message = f"The model `{asked}` does not exist. Valid aliases: {served}."
    return ApiError(HTTPStatus.NOT_FOUND, message, "NotFoundError", "model")


def queue_full() -> ApiError:
    message = (
        "The engine is currently busy and cannot accept new requests. "
        "Please try again later or on a different instance."
    )
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return ApiError(status, message, status.phrase)


def engine_dead() -> ApiError:
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, ENGINE_DEAD, "InternalServerError")


def no_such_response(response_id: str) -> ApiError:
    """vLLM stores responses only where that is switched on."""
    message = f"Response with id '{response_id}' not found."
    return ApiError(HTTPStatus.NOT_FOUND, message, "invalid_request_error", "response_id")
