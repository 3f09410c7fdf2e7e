"""Every layer, activation and loss in plain float64 NumPy, window by window: the
engines are compared with it.

Images are (rows, channels, height, width); `layer` is a nn.layers.Layer.
"""

import math

import numpy as np


def softmax(z):
    exponentials = np.exp(z - z.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def normal_cdf(z):
    cdf = np.vectorize(
        lambda value: math.erfc(-value / math.sqrt(2)) / 2, otypes=[float]
    )
    return cdf(z)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


SELU_SCALE = 1.0507009873554805
SELU_LOW = 1.0507009873554805 * 1.6732632423543772


def lrelu(z):
    return np.where(z > 0, z, 0.01 * z)


def lrelu_gradient(da, z, a):
    slope = np.where(z > 0, 1, 0.01)
    return da * slope


def silu_gradient(da, z, a):
    share = sigmoid(z)
    return da * share * (1 + z * (1 - share))


def gelu_gradient(da, z, a):
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return da * (normal_cdf(z) + z * density)


def selu(z):
    below = SELU_LOW * np.expm1(z)
    return np.where(z > 0, SELU_SCALE * z, below)


def selu_gradient(da, z, a):
    slope = np.where(z > 0, SELU_SCALE, SELU_LOW * np.exp(z))
    return da * slope


def softmax_gradient(da, z, a):
    mean = (da * a).sum(-1, keepdims=True)
    return a * (da - mean)


def steps(z):
    ups = np.log1p(np.exp(z))
    return np.cumsum(np.concatenate([z[:, :1], ups[:, 1:]], axis=1), axis=1)


def steps_gradient(da, z, a):
    of_ups = np.cumsum(da[:, ::-1], axis=1)[:, ::-1]
    return of_ups * np.concatenate([np.ones_like(z[:, :1]), sigmoid(z[:, 1:])], axis=1)


# name -> (value of z, gradient by z from the gradient by the value a); an unknown name
# is a KeyError, never linear
ACTIVATIONS = {
    "linear": (lambda z: z, lambda da, z, a: da),
    "relu": (lambda z: np.maximum(z, 0), lambda da, z, a: da * (z > 0)),
    "lrelu": (lrelu, lrelu_gradient),
    "sigmoid": (sigmoid, lambda da, z, a: da * a * (1 - a)),
    "tanh": (np.tanh, lambda da, z, a: da * (1 - a * a)),
    "softplus": (lambda z: np.log1p(np.exp(z)), lambda da, z, a: da * sigmoid(z)),
    "silu": (lambda z: z * sigmoid(z), silu_gradient),
    "gelu": (lambda z: z * normal_cdf(z), gelu_gradient),
    "selu": (selu, selu_gradient),
    "exp": (np.exp, lambda da, z, a: da * a),
    "softmax": (softmax, softmax_gradient),
    "steps": (steps, steps_gradient),
}


def huber(difference, distance):
    size = np.abs(difference)
    return np.where(
        size <= distance, difference**2 / 2, distance * (size - distance / 2)
    )


def clipped(difference, distance):
    return np.clip(difference, -distance, distance)


def cross_entropy_of_two(a, y):
    of_class_1 = y * np.log(a)
    of_class_0 = (1 - y) * np.log(1 - a)
    return -np.mean(of_class_1 + of_class_0)


def gradient_of_two(a, y):
    variance = a * (1 - a)
    return (a - y) / variance / y.size


def pinball(a, y, *shares):
    share = np.array(shares or 0.5)
    return np.mean(np.where(y > a, share * (y - a), (1 - share) * (a - y)))


def pinball_gradient(a, y, *shares):
    share = np.array(shares or 0.5)
    above = np.where(a > y, 1 - share, 0)
    below = np.where(a < y, share, 0)
    return (above - below) / y.size


def focal(a, y, power=2.0):
    """Lin et al. 2017."""
    of_class_1 = -((1 - a) ** power) * np.log(a)
    of_class_0 = -(a**power) * np.log(1 - a)
    return np.mean(y * of_class_1 + (1 - y) * of_class_0)


def focal_gradient(a, y, power=2.0):
    b = 1 - a
    of_class_1 = power * b ** (power - 1) * np.log(a) - b**power / a
    of_class_0 = -power * a ** (power - 1) * np.log(b) + a**power / b
    return (y * of_class_1 + (1 - y) * of_class_0) / y.size


def poisson(a, y):
    logarithm = np.log(np.where(y > 0, y, 1) / a)
    return np.mean(2 * (y * logarithm - y + a))


def gamma(a, y):
    return np.mean(2 * (np.log(a / y) + y / a - 1))


def tweedie(a, y, power=1.5):
    of_y = y ** (2 - power) / (1 - power) / (2 - power)
    of_both = y * a ** (1 - power) / (1 - power)
    of_a = a ** (2 - power) / (2 - power)
    return np.mean(2 * (of_y - of_both + of_a))


def tweedie_gradient(a, y, power=1.5):
    return 2 * (a - y) / a**power / y.size


# name -> (mean over the batch, its gradient by the outputs a), perhaps with another
# constant than the usual one; ce: mean over rows, the others: over all values
LOSSES = {
    "mse": (lambda a, y: np.mean((a - y) ** 2), lambda a, y: 2 * (a - y) / y.size),
    "mae": (lambda a, y: np.mean(np.abs(a - y)), lambda a, y: np.sign(a - y) / y.size),
    "huber": (
        lambda a, y, distance=1.0: np.mean(huber(a - y, distance)),
        lambda a, y, distance=1.0: clipped(a - y, distance) / y.size,
    ),
    "quantile": (pinball, pinball_gradient),
    "focal": (focal, focal_gradient),
    "poisson": (poisson, lambda a, y: tweedie_gradient(a, y, 1.0)),
    "gamma": (gamma, lambda a, y: tweedie_gradient(a, y, 2.0)),
    "tweedie": (tweedie, tweedie_gradient),
    "bce": (cross_entropy_of_two, gradient_of_two),
    "ce": (lambda a, y: -np.sum(y * np.log(a)) / len(y), lambda a, y: -y / a / len(y)),
}


def windows(layer):
    """(output row, output column, rows, columns of the padded image) of each window."""
    k = layer.kernel
    s = layer.stride
    for oy in range(layer.out_shape[1]):
        for ox in range(layer.out_shape[2]):
            yield oy, ox, slice(oy * s, oy * s + k), slice(ox * s, ox * s + k)


def padded(x, layer):
    """x with the zeros that its windows need, before and after."""
    needed = [
        (outputs - 1) * layer.stride + layer.kernel for outputs in layer.out_shape[1:]
    ]
    before = layer.pad_top, layer.pad_left
    after = [max(0, n - size - b) for n, size, b in zip(needed, x.shape[2:], before)]
    return np.pad(x, ((0, 0), (0, 0), *zip(before, after)))


def unpadded(x, layer):
    """The image inside the zeros."""
    height, width = layer.in_shape[1:]
    return x[
        :,
        :,
        layer.pad_top : layer.pad_top + height,
        layer.pad_left : layer.pad_left + width,
    ]


def conv_forward(layer, x, w, b, mask):
    image = padded(x, layer)
    out = np.empty((len(x), *layer.out_shape))
    for oy, ox, rows, columns in windows(layer):
        out[:, :, oy, ox] = (
            np.einsum("ncij,fcij->nf", image[:, :, rows, columns], w) + b
        )
    return out


def conv_backward(layer, dz, x, w, mask):
    image = padded(x, layer)
    dx = np.zeros_like(image)
    dw = np.zeros_like(w)
    for oy, ox, rows, columns in windows(layer):
        dw += np.tensordot(dz[:, :, oy, ox], image[:, :, rows, columns], (0, 0))
        dx[:, :, rows, columns] += np.tensordot(dz[:, :, oy, ox], w, (1, 0))
    return unpadded(dx, layer), dw, dz.sum((0, 2, 3))


def pool_forward(layer, x, w, b, mask):
    out = np.empty((len(x), *layer.out_shape))
    if layer.kind == "maxpool":
        reduce = np.max
    else:
        reduce = np.mean
    for oy, ox, rows, columns in windows(layer):
        out[:, :, oy, ox] = reduce(x[:, :, rows, columns], (2, 3))
    return out


def maxpool_backward(layer, dz, x, w, mask):
    dx = np.zeros(x.shape)
    row, channel = np.indices(x.shape[:2])
    for oy, ox, rows, columns in windows(layer):
        place = x[:, :, rows, columns].reshape(*x.shape[:2], -1).argmax(2)
        dy, dx_ = np.divmod(place, layer.kernel)
        dx[row, channel, rows.start + dy, columns.start + dx_] += dz[:, :, oy, ox]
    return dx, None, None


def avgpool_backward(layer, dz, x, w, mask):
    dx = np.zeros(x.shape)
    for oy, ox, rows, columns in windows(layer):
        dx[:, :, rows, columns] += dz[:, :, oy, ox, None, None] / layer.kernel**2
    return dx, None, None


def philox(seed, counter):
    """Return Philox4x32-10's words, in Python's own numbers (Salmon et al. 2011)."""
    c = list(counter)
    key = [seed, 0]
    low = 0xFFFFFFFF
    for _ in range(10):
        a = 0xD2511F53 * c[0]
        b = 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ key[0], b & low, (a >> 32) ^ c[3] ^ key[1], a & low]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return c


def dropout_mask(shape, rate, seed, step, layer):
    """Return the factors of a batch by the rule of docs/numbers.md: word e % 4 of block
    (e / 4, step, layer)."""
    size = int(np.prod(shape))
    words = [
        w
        for block in range(-(-size // 4))
        for w in philox(seed, (block, 0, step, layer))
    ][:size]
    return (np.array(words).reshape(shape) >= rate * 2**32) / (1 - rate)


def dropout_masks(layers, rows, seed, step):
    """Return the factors of all dropout layers, by the layer's index."""
    which = [
        (index, layer) for index, layer in enumerate(layers) if layer.kind == "dropout"
    ]
    return {
        index: dropout_mask((rows, *layer.out_shape), layer.rate, seed, step, index)
        for index, layer in which
    }


def embedding_tables(layer, w):
    """Yield (column, its first output, its table (values, width), or its frequencies,
    or None) of each column; these are views of w."""
    out = at = 0
    waves = sum(column.parameters for column in layer.columns)
    for column in layer.columns:
        if column.waves:
            learned = w[waves : waves + column.waves]
        else:
            learned = None
        if column.parameters:
            learned = w[at : at + column.parameters].reshape(
                column.values, column.width
            )
        yield column, out, learned
        out = out + column.outputs
        at = at + column.parameters
        waves = waves + column.waves


def pieces_of(column, v):
    """(rows, pieces): how much of each piece lies below v."""
    low = np.array(column.edges[:-1])
    high = np.array(column.edges[1:])
    return np.clip((v[:, None] - low) / (high - low), 0, 1)


def pieces_gradient(column, x, dz):
    low = np.array(column.edges[:-1])
    high = np.array(column.edges[1:])
    selected = np.where((low < x[:, None]) & (x[:, None] < high), dz / (high - low), 0)
    return selected.sum(1)


def waves_of(v, frequencies):
    """(rows, 2 waves): sines, then cosines; nothing without frequencies."""
    angles = (
        2
        * np.pi
        * v[:, None].astype(np.float64)
        * ([] if frequencies is None else frequencies)
    )
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


def angles_gradient(v, frequencies, dz):
    """(rows, waves): the gradient of the angles, from that of sines, then cosines."""
    sines, cosines = np.split(waves_of(v, frequencies), 2, axis=1)
    of_sines, of_cosines = np.split(dz, 2, axis=1)
    return of_sines * cosines - of_cosines * sines


def embedding_forward(layer, x, w, b, mask):
    parts = []
    for value, (column, _, learned) in zip(
        x.T, embedding_tables(layer, w), strict=True
    ):
        if column.kind == "number":
            parts += [
                value[:, None],
                pieces_of(column, value),
                waves_of(value, learned),
            ]
        elif column.kind == "gap":
            filled = np.where(np.isnan(value), column.fill, value)
            parts += [
                np.stack([filled, np.isnan(value)], 1),
                pieces_of(column, filled),
                waves_of(filled, learned),
            ]
        elif column.kind == "onehot":
            indices = np.arange(column.values)
            parts.append(value[:, None] == indices)
        else:
            parts.append(learned[value.astype(int)])
    return np.concatenate(parts, 1)


def embedding_backward(layer, dz, x, w, mask):
    dx = np.zeros(x.shape)
    if w is None:
        dw = None
    else:
        dw = np.zeros(w.shape)
    learned = [values for _, _, values in embedding_tables(layer, w)]
    for k, (column, out, gradient) in enumerate(embedding_tables(layer, dw)):
        if column.kind in ("number", "gap"):
            waves = out + column.outputs - 2 * column.waves
            dx[:, k] = dz[:, out] + pieces_gradient(
                column, x[:, k], dz[:, waves - column.pieces : waves]
            )
            if column.waves:
                v = np.where(np.isnan(x[:, k]), column.fill, x[:, k])
                angles = angles_gradient(
                    v, learned[k], dz[:, waves : out + column.outputs]
                )
                gradient += 2 * np.pi * v @ angles
                dx[:, k] += 2 * np.pi * angles @ learned[k]
            dx[np.isnan(x[:, k]), k] = 0
        elif gradient is not None:
            np.add.at(gradient, x[:, k].astype(int), dz[:, out : out + column.width])
    return dx, dw, None


def pad_forward(layer, x, *_):
    widths = [(0, 0), (0, 0), (layer.pad_top,) * 2, (layer.pad_top,) * 2]
    return np.pad(x, widths)


def activation_forward(layer, x, *_):
    value, _ = ACTIVATIONS[layer.function]
    return value(x)


def activation_backward(layer, dz, x, *_):
    _, gradient = ACTIVATIONS[layer.function]
    return gradient(dz, x, None), None, None


# kind -> (outputs, gradients by inputs, weights and biases)
KINDS = {
    "dense": (
        lambda layer, x, w, b, mask: x @ w.T + b,
        lambda layer, dz, x, w, mask: (dz @ w, dz.T @ x, dz.sum(0)),
    ),
    "conv": (conv_forward, conv_backward),
    "maxpool": (pool_forward, maxpool_backward),
    "avgpool": (pool_forward, avgpool_backward),
    "pad": (pad_forward, lambda layer, dz, *_: (unpadded(dz, layer), None, None)),
    "flatten": (
        lambda layer, x, *_: x.reshape(len(x), -1, 1, 1),
        lambda _, dz, x, *more: (dz.reshape(x.shape), None, None),
    ),
    "dropout": (
        lambda layer, x, w, b, mask: x * mask,
        lambda layer, dz, x, w, mask: (dz * mask, None, None),
    ),
    "activation": (activation_forward, activation_backward),
    "embedding": (embedding_forward, embedding_backward),
}


def shaped(values, shape, kind):
    return values.reshape(
        len(values), *([-1] if kind in ("dense", "embedding") else shape)
    )


def passes(layers, parameters, x, masks=None):
    """Return the values before each layer's activation and the outputs of the input and
    of each layer, flat rows."""
    zs = []
    outs = [np.asarray(x, np.float64).reshape(len(x), -1)]
    at = 0
    for index, layer in enumerate(layers):
        w = b = None
        if layer.weight_shape:
            w = np.asarray(parameters[f"layer{at}.weight"], np.float64)
            if layer.biases:
                b = np.asarray(parameters[f"layer{at}.bias"], np.float64)
            else:
                b = None
            at += 1
        x = shaped(outs[-1], layer.in_shape, layer.kind)
        zs.append(
            KINDS[layer.kind][0](layer, x, w, b, (masks or {}).get(index, 1)).reshape(
                len(x), -1
            )
        )
        outs.append(ACTIVATIONS[layer.activation][0](zs[-1]))
    return zs, outs


def forward(layers, parameters, x, masks=None):
    """Return the outputs of the input and of each layer, flat rows; masks: {index of
    the layer: factors}."""
    return passes(layers, parameters, x, masks)[1]


def gradients(layers, parameters, x, y, masks=None, loss="mse"):
    """Return (loss, {name: gradient}, dx) of a batch."""
    zs, outs = passes(layers, parameters, x, masks)
    y = np.asarray(y, np.float64).reshape(len(y), -1)
    name, _, constant = loss.partition("=")
    constants = [float(word) for word in constant.split(",") if word]
    value, derivative = LOSSES[name]
    da = derivative(outs[-1], y, *constants)
    at = sum(layer.parameters > 0 for layer in layers)
    grads = {}
    for index, layer in reversed(list(enumerate(layers))):
        w = None
        if layer.weight_shape:
            at -= 1
            w = np.asarray(parameters[f"layer{at}.weight"], np.float64)
        dz = ACTIVATIONS[layer.activation][1](da, zs[index], outs[index + 1])
        x_in = shaped(outs[index], layer.in_shape, layer.kind)
        dz = shaped(dz, layer.out_shape, layer.kind)
        da, dw, db = KINDS[layer.kind][1](
            layer, dz, x_in, w, (masks or {}).get(index, 1)
        )
        of = {f"layer{at}.weight": dw, f"layer{at}.bias": db}
        grads |= {name: values for name, values in of.items() if values is not None}
        da = da.reshape(len(x), -1)
    return value(outs[-1], y, *constants), grads, da.reshape(np.shape(x))
