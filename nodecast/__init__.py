"""What both sides of nodecast agree on."""

__version__ = "0.1.0"
