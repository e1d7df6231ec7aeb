"""ONNX Runtime without its reports to its maker: it keeps a device id and events unless told so before it is loaded.

The only door to it: whoever imports it elsewhere may come first, and then it reports.
"""

from __future__ import annotations

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as binding

__all__ = ["binding", "onnxruntime"]
