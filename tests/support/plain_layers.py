"""Every layer in plain float64 NumPy, window by window: what the engines are compared with.

Images are (rows, channels, height, width); `layer` is a nn.layers.Layer.
"""

import numpy as np

ACTIVATIONS = {  # name -> (value, derivative from the output)
    "linear": (lambda z: z, lambda a: np.ones_like(a)),
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0) * 1.0),
    "lrelu": (lambda z: np.where(z > 0, z, 0.01 * z), lambda a: np.where(a > 0, 1, 0.01)),
    "sigmoid": (lambda z: 1 / (1 + np.exp(-z)), lambda a: a * (1 - a)),
    "tanh": (np.tanh, lambda a: 1 - a * a),
    "softplus": (lambda z: np.log1p(np.exp(z)), lambda a: 1 - np.exp(-a)),
}


def windows(layer):
    """(output row, output column, rows, columns of the padded image) of each window."""
    k, s = layer.kernel, layer.stride
    for oy in range(layer.out_shape[1]):
        for ox in range(layer.out_shape[2]):
            yield oy, ox, slice(oy * s, oy * s + k), slice(ox * s, ox * s + k)


def padded(x, layer):
    """x with the zeros that its windows need, before and after."""
    (height, width), k, s = x.shape[2:], layer.kernel, layer.stride
    below = max(0, (layer.out_shape[1] - 1) * s + k - height - layer.pad_top)
    right = max(0, (layer.out_shape[2] - 1) * s + k - width - layer.pad_left)
    return np.pad(x, ((0, 0), (0, 0), (layer.pad_top, below), (layer.pad_left, right)))


def unpadded(x, layer):
    """The image inside the zeros."""
    height, width = layer.in_shape[1:]
    return x[:, :, layer.pad_top : layer.pad_top + height, layer.pad_left : layer.pad_left + width]


def dense_forward(layer, x, w, b, mask):
    return x @ w.T + b


def dense_backward(layer, dz, x, w, mask):
    return dz @ w, dz.T @ x, dz.sum(0)


def conv_forward(layer, x, w, b, mask):
    image = padded(x, layer)
    out = np.empty((len(x), *layer.out_shape))
    for oy, ox, rows, columns in windows(layer):
        out[:, :, oy, ox] = np.einsum("ncij,fcij->nf", image[:, :, rows, columns], w) + b
    return out


def conv_backward(layer, dz, x, w, mask):
    image = padded(x, layer)
    dx, dw = np.zeros_like(image), np.zeros_like(w)
    for oy, ox, rows, columns in windows(layer):
        dw += np.tensordot(dz[:, :, oy, ox], image[:, :, rows, columns], (0, 0))
        dx[:, :, rows, columns] += np.tensordot(dz[:, :, oy, ox], w, (1, 0))
    return unpadded(dx, layer), dw, dz.sum((0, 2, 3))


def maxpool_forward(layer, x, w, b, mask):
    out = np.empty((len(x), *layer.out_shape))
    for oy, ox, rows, columns in windows(layer):
        out[:, :, oy, ox] = x[:, :, rows, columns].max((2, 3))
    return out


def maxpool_backward(layer, dz, x, w, mask):
    dx = np.zeros(x.shape)
    row, channel = np.indices(x.shape[:2])
    for oy, ox, rows, columns in windows(layer):
        first = x[:, :, rows, columns].reshape(*x.shape[:2], -1).argmax(2)
        dy, dx_ = np.divmod(first, layer.kernel)
        dx[row, channel, rows.start + dy, columns.start + dx_] += dz[:, :, oy, ox]
    return dx, None, None


def avgpool_forward(layer, x, w, b, mask):
    out = np.empty((len(x), *layer.out_shape))
    for oy, ox, rows, columns in windows(layer):
        out[:, :, oy, ox] = x[:, :, rows, columns].sum((2, 3)) / layer.kernel**2
    return out


def avgpool_backward(layer, dz, x, w, mask):
    dx = np.zeros(x.shape)
    for oy, ox, rows, columns in windows(layer):
        dx[:, :, rows, columns] += dz[:, :, oy, ox, None, None] / layer.kernel**2
    return dx, None, None


def pad_forward(layer, x, w, b, mask):
    zeros = layer.pad_top
    return np.pad(x, ((0, 0), (0, 0), (zeros, zeros), (zeros, zeros)))


def pad_backward(layer, dz, x, w, mask):
    return unpadded(dz, layer), None, None


def flatten_forward(layer, x, w, b, mask):
    return x.reshape(len(x), -1, 1, 1)


def flatten_backward(layer, dz, x, w, mask):
    return dz.reshape(x.shape), None, None


def dropout_forward(layer, x, w, b, mask):
    return x if mask is None else x * mask


def dropout_backward(layer, dz, x, w, mask):
    return (dz if mask is None else dz * mask), None, None


KINDS = {
    "dense": (dense_forward, dense_backward),
    "conv": (conv_forward, conv_backward),
    "maxpool": (maxpool_forward, maxpool_backward),
    "avgpool": (avgpool_forward, avgpool_backward),
    "pad": (pad_forward, pad_backward),
    "flatten": (flatten_forward, flatten_backward),
    "dropout": (dropout_forward, dropout_backward),
}


def shaped(values, shape, kind):
    return values.reshape(len(values), -1) if kind == "dense" else values.reshape(len(values), *shape)


def forward(layers, parameters, x, masks=None):
    """The outputs of the input and of each layer, flat rows; masks: {index of the layer: factors}."""
    outs, at = [np.asarray(x, np.float64).reshape(len(x), -1)], 0
    for index, layer in enumerate(layers):
        w = b = None
        if layer.weight_shape:
            w, b = (np.asarray(parameters[f"layer{at}.{name}"], np.float64) for name in ("weight", "bias"))
            at += 1
        x = shaped(outs[-1], layer.in_shape, layer.kind)
        z = KINDS[layer.kind][0](layer, x, w, b, (masks or {}).get(index))
        outs.append(ACTIVATIONS[layer.activation][0](z).reshape(len(x), -1))
    return outs


def gradients(layers, parameters, x, y, masks=None):
    """(mean squared error, {name: gradient}, dx) of a batch."""
    outs = forward(layers, parameters, x, masks)
    y = np.asarray(y, np.float64).reshape(len(y), -1)
    da, at, grads = 2 * (outs[-1] - y) / y.size, sum(layer.parameters > 0 for layer in layers), {}
    for index, layer in reversed(list(enumerate(layers))):
        w = None
        if layer.weight_shape:
            at -= 1
            w = np.asarray(parameters[f"layer{at}.weight"], np.float64)
        dz = da * ACTIVATIONS[layer.activation][1](outs[index + 1])
        x_in = shaped(outs[index], layer.in_shape, layer.kind)
        dz = shaped(dz, layer.out_shape, layer.kind)
        da, dw, db = KINDS[layer.kind][1](layer, dz, x_in, w, (masks or {}).get(index))
        if dw is not None:
            grads[f"layer{at}.weight"], grads[f"layer{at}.bias"] = dw, db
        da = da.reshape(len(x), -1)
    return ((outs[-1] - y) ** 2).mean(), grads, da.reshape(np.shape(x))
