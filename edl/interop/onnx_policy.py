"""A policy as an ONNX graph: (observation, code) -> action, the mean of a continuous pi(a|s,z), else its mode.

The network is a few matrix products, so the graph is built node by node with ONNX's own helpers. This needs no tracing
and no converter that must follow changes of JAX.
"""

import functools
from typing import Any

import numpy as np

from edl.config import ConfigError
from edl.interop.numpy_skills import EDGE, NumpySkills

OPSET = 17
IR_VERSION = 8
"""Old enough for all current runtimes."""


def to_onnx(skills: NumpySkills) -> bytes:
    """The bytes of a .onnx file with inputs ``observation`` (n, o) and ``code`` (n, z) and output ``action``."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise ConfigError(
            "ONNX export needs onnx, which is not installed. In a checkout, pip install '.[export]'. "
            "Or use --format numpy."
        ) from error
    nodes: list[Any] = []
    constants: dict[str, np.ndarray] = {}

    def add(operation: str, *inputs: str | np.ndarray, output: str | None = None, **attributes: Any) -> str:
        names = []
        for value in inputs:
            if isinstance(value, np.ndarray):
                constants[f"c{len(constants)}"] = value
                value = f"c{len(constants) - 1}"
            names.append(value)
        output = output or f"t{len(nodes)}"
        nodes.append(helper.make_node(operation, names, [output], **attributes))
        return output

    _add_network(skills, add)
    sizes = {"observation": skills.arrays["mean"].shape[0], "code": skills.codes.shape[1]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in sizes.items()]
    discrete = skills.kind == "categorical"
    action = helper.make_tensor_value_info(
        "action",
        TensorProto.INT64 if discrete else TensorProto.FLOAT,
        ["n"] if discrete else ["n", skills.arrays["low"].shape[0]],
    )
    params = helper.make_tensor_value_info("params", TensorProto.FLOAT, ["n", skills.layers[-1][1].shape[0]])
    initialisers = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "skills", inputs, [action, params], initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _add_network(skills: NumpySkills, add: Any) -> None:
    """Add the nodes of the network, and of the action that follows from its output."""
    one = functools.partial(np.array, dtype=np.float32)
    x = add(
        "Concat", add("Div", add("Sub", "observation", skills.arrays["mean"]), skills.arrays["scale"]), "code", axis=1
    )
    for weight, bias in skills.layers[:-1]:
        x = add("Relu", add("Gemm", x, weight, bias))
    params = add("Gemm", x, *skills.layers[-1], output="params")
    if skills.kind == "categorical":
        add("ArgMax", params, axis=1, keepdims=0, output="action")
        return
    size = len(skills.arrays["low"])
    first = add("Slice", params, np.array([0]), np.array([size]), np.array([1]))
    if skills.kind == "beta":
        second = add("Slice", params, np.array([size]), np.array([2 * size]), np.array([1]))
        alpha, beta = (add("Add", add("Softplus", part), one([1.05])) for part in (first, second))
        unit = add("Div", alpha, add("Add", alpha, beta))
    else:
        squashed = add("Clip", add("Tanh", first), one(EDGE - 1), one(1 - EDGE))
        unit = add("Mul", add("Add", squashed, one([1.0])), one([0.5]))
    low, high = skills.arrays["low"], skills.arrays["high"]
    add("Add", add("Mul", unit, high - low), low, output="action")
