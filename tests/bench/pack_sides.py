"""Sides that train several networks at once, for the cases of packs; and all sides by their names.

Every network begins with the same parameters and has rows in an order of its own, as nn's members have.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nn.study.bench import TrainStepCase

from .sides import EAGER_BATCHES, Jax, Nn, Numpy, Sklearn, Torch, checked_batches, epoch_timer


def is_pack(case) -> bool:
    """Return whether the case trains several networks."""
    return isinstance(case, TrainStepCase) and case.networks > 1


class NnAlone(Nn):
    """This project, one network after another."""

    name = "nn-alone"

    def start(self, case):
        if not is_pack(case):
            return None
        return replace(case, networks=1).start("omp").once, None, {}


class TorchVmap(Torch):
    """PyTorch: gradients of all networks by torch.func.vmap, one optimiser for the stacked parameters."""

    name = "torch-vmap"

    def start(self, case):
        if not is_pack(case) or not self.comparable(case):
            return None
        torch = self.torch
        model, net = self.model(case, with_output=False)
        x, y = case.data()
        x, y = self.rows(x, net), self.targets(y)
        stacked = self.stacked(model, case.networks)
        optimizer = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[case.optimizer]
        optimizer = optimizer(list(stacked.values()), lr=case.learning_rate)
        gradients_of = self.gradients_of(model, net)
        batches = min(case.batches, EAGER_BATCHES)

        def epoch():
            orders = torch.stack([torch.randperm(len(x)) for _ in range(case.networks)])
            for rows in orders.split(case.batch, 1)[:batches]:
                gradients = gradients_of(stacked, x[rows], y[rows])
                for name, parameter in stacked.items():
                    parameter.grad = gradients[name]
                optimizer.step()

        return epoch_timer(epoch, batches * case.networks), self.checked(case, model, net), {}

    def comparable(self, case: TrainStepCase) -> bool:
        """Return whether the networks can be written so."""
        return True

    def stacked(self, model, networks: int) -> dict:
        """Return the parameters of all networks by name, (networks, ...)."""
        named = model.named_parameters()
        return {name: p.detach().expand(networks, *p.shape).clone() for name, p in named}

    def loss_of(self, net):
        """Return the mean loss of a batch's outputs and targets."""
        functional = self.torch.nn.functional
        return {
            "bce": functional.binary_cross_entropy_with_logits,
            "ce": functional.cross_entropy,
            "mse": functional.mse_loss,
        }[net.loss]

    def gradients_of(self, model, net):
        """Return a function of parameters by name, x and y of all networks to the gradients by name."""
        from torch.func import functional_call, grad, vmap

        loss_of = self.loss_of(net)

        def loss(parameters, x, y):
            return loss_of(functional_call(model, parameters, (x,)), y)

        return vmap(grad(loss), randomness="different")

    def checked(self, step, model, net) -> np.ndarray:
        """Return the gradients of the checked batches, of one network."""
        model.eval()
        gradients_of, one, found = self.gradients_of(model, net), self.stacked(model, 1), []
        for x, y in checked_batches(step):
            gradients = gradients_of(one, self.rows(x, net)[None], self.targets(y)[None])
            found.append(np.concatenate([gradients[name].detach().numpy().ravel() for name in one]))
        model.train()
        return np.stack(found)


class TorchBatched(TorchVmap):
    """PyTorch: dense networks written as batched products, their gradients by autograd."""

    name = "torch-batched"

    def comparable(self, case: TrainStepCase) -> bool:
        return all(layer.kind == "dense" for layer in case.model.network(case.dtype).layers)

    def gradients_of(self, model, net):
        torch, loss_of = self.torch, self.loss_of(net)
        functions = {"relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "linear": lambda z: z}

        def gradients_of(stacked, x, y):
            leaves = [parameter.detach().requires_grad_() for parameter in stacked.values()]
            out = x
            for number, layer in enumerate(net.layers):
                weight, bias = leaves[2 * number : 2 * number + 2]
                out = torch.baddbmm(bias[:, None], out, weight.transpose(1, 2))
                if layer is not net.layers[-1]:
                    out = functions[layer.activation](out)
            loss = loss_of(out.flatten(0, 1), y.flatten(0, 1)) * len(x)  # the sum of the networks' mean losses
            return dict(zip(stacked, torch.autograd.grad(loss, leaves), strict=True))

        return gradients_of


SIDES = {side.name: side for side in (Nn, NnAlone, Torch, TorchVmap, TorchBatched, Jax, Sklearn, Numpy)}
PEERS = [name for name in SIDES if name != "nn"]
