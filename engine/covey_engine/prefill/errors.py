"""Errors of the prefill engine; the server maps them to status codes."""


class EngineError(Exception):
    """The engine could not do what was asked; the message is fit for a user."""


class ModelError(EngineError):
    """The model could not be loaded: missing folder, unknown architecture, missing tensor."""


class WorkerCrashed(EngineError):
    """The worker process ended while the order ran; a new worker is being started."""


class OutOfDeviceMemory(EngineError):
    """The device has too little memory; the message says how much was needed and how much there is."""


class Cancelled(EngineError):
    """The order was cancelled by its owner."""
