"""Which operations' outputs take no memory of their own.

Read in the kernels of TensorFlow 2.21 (``tensorflow/core/kernels``): ``ctx->set_output(0, ctx->input(0))`` for those
that pass their input on, ``forward_input_or_allocate_output`` for those that write over an input which nobody else
needs.
"""

from __future__ import annotations

from jupyter_placement.dryrun.step_graph import StepNode

_HAND_ON = (
    "Identity IdentityN RefIdentity Reshape Squeeze ExpandDims StopGradient PreventGradient CheckNumerics Enter "
    "RefEnter Exit RefExit NextIteration RefNextIteration LoopCond Bitcast EnsureShape PlaceholderWithDefault _Retval "
    "_DeviceRetval Snapshot DebugGradientIdentity DebugGradientRefIdentity OptionalGetValue"
)
# Output i is input i, or input 0 where there is one input only.
_PASS_ON = frozenset(_HAND_ON.split())
# Both outputs, or the first, are input 0.
_FIRST = frozenset(("Switch", "RefSwitch", "_SwitchN", "Merge", "RefMerge"))
# Ask a resource, or the shape of a tensor, and make nothing: the output is the variable's own memory.
_READS = frozenset(("ReadVariableOp", "VariableV2", "Variable", "VarHandleOp", "_ReadVariablesOp"))
# Where type and shape stay as they are, nothing is left to do. (A part of the first dimension is no copy either if it
# happens to be aligned; that is not followed, so the estimate is too high there.)
_MAY_PASS_ON = frozenset(("Cast", "BroadcastTo", "Tile", "ConcatV2", "Slice", "StridedSlice"))
_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Conj Cos Cosh Digamma Elu Erf Erfc Erfinv Exp Expm1 Floor Inv "
    "Invert LeakyRelu Lgamma Log Log1p LogicalNot LogSoftmax Neg OnesLike Reciprocal Relu Relu6 Rint Round Rsqrt Selu "
    "Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Square Tan Tanh ZerosLike Ndtri"
)
_BINARY = (
    "Add AddV2 Sub Mul MulNoNan Div DivNoNan RealDiv FloorDiv TruncateDiv FloorMod TruncateMod Mod Maximum Minimum Pow "
    "SquaredDifference Xdivy Xlogy Xlog1py Atan2 AddN AccumulateNV2 LogicalAnd LogicalOr BitwiseAnd BitwiseOr "
    "BitwiseXor EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad "
    "SoftplusGrad SoftsignGrad SqrtGrad TanhGrad ClipByValue"
)
_OVERWRITE = {
    **dict.fromkeys(_UNARY.split(), (0,)),
    **dict.fromkeys(_BINARY.split(), None),  # any input
    "BiasAdd": (0,),
    "BiasAddV1": (0,),
    "Select": (1, 2),
    "SelectV2": (1, 2),
    "SoftmaxCrossEntropyWithLogits": (0,),
    "SparseSoftmaxCrossEntropyWithLogits": (0,),
    "TensorScatterUpdate": (0,),
    "TensorScatterAdd": (0,),
    "TensorScatterSub": (0,),
    "InplaceUpdate": (0,),
    "InplaceAdd": (0,),
    "InplaceSub": (0,),
    "MatrixSetDiag": (0,),
    "MatrixSetDiagV3": (0,),
    "MatrixBandPart": (0,),
    "Cumsum": (),
    "CollectiveReduceV2": (0,),
    "NcclAllReduce": (0,),
}
# Of these the kernel overwrites an input for one of the later outputs.
_OVERWRITE_FOR = {"SoftmaxCrossEntropyWithLogits": 1, "SparseSoftmaxCrossEntropyWithLogits": 1}


def passed_on(node: StepNode, output: int) -> int | None:
    """Return which input an output is, without a copy; ``None`` for memory of its own."""
    op = node.op
    if op in _PASS_ON:
        return output if output < len(node.inputs) and op == "IdentityN" else 0 if output == 0 else None
    if op in _FIRST:
        return 0 if op in ("Switch", "RefSwitch", "_SwitchN") or output == 0 else None
    return None


def is_read(node: StepNode) -> bool:
    """Tell whether the node's output is a variable's own memory."""
    return node.op in _READS


def may_pass_on(node: StepNode) -> bool:
    """Tell whether the output is an input where type, shape or position leave nothing to do."""
    return node.op in _MAY_PASS_ON


def overwritten(node: StepNode, output: int) -> tuple[int, ...]:
    """Return the inputs whose memory an output may take when nobody else needs them, in the kernel's order."""
    if node.op not in _OVERWRITE or output != _OVERWRITE_FOR.get(node.op, 0):
        return ()
    inputs = _OVERWRITE[node.op]
    return tuple(range(len(node.inputs))) if inputs is None else inputs
