"""DQN and what it is made of, written plainly: one row after the other, with autograd."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from relive.agents.dqn import DQN
from relive.learn.noisy import draw_noise


class PlainDQN:
    """The same networks as a learner's at this moment, and the same settings."""

    def __init__(self, learner: DQN) -> None:
        self.config, self.learner = learner.config, learner
        self.online = self._layers(learner.online)
        self.target = [[layer.detach().clone() for layer in stream] for stream in self.online]
        self.optimizer = torch.optim.Adam([layer for stream in self.online for layer in stream], learner.config.lr)
        self.updates = 0

    def _layers(self, network: Any) -> list[list[Tensor]]:
        """Weights, biases (and their deviations) of every stream, one after the other."""
        streams = [network.advantage] + ([network.value] if network.value is not None else [])
        found = []
        for stream in streams:
            if self.config.noisy_sigma:
                each = [getattr(layer, name) for layer in stream.layers for name in NOISY]
            else:
                each = [value[0] for value in stream.named_layers().values()]
            found.append([value.detach().clone().requires_grad_() for value in each])
        return found

    def _stream(self, x: Tensor, layers: list[Tensor], noise: Any) -> Tensor:
        width = len(NOISY) if self.config.noisy_sigma else 2
        for index in range(0, len(layers), width):
            if self.config.noisy_sigma:
                weight, bias, weight_sigma, bias_sigma = layers[index : index + 4]
                layer = noise.layers[index // 4]
                drawn = weight + weight_sigma * layer.noise_out[:, None] * layer.noise_in[None, :]
                x = drawn @ x + bias + bias_sigma * layer.noise_out
            else:
                x = x @ layers[index] + layers[index + 1][0]
            x = x if index + width >= len(layers) else torch.relu(x)
        return x

    def outputs(self, obs: Tensor, streams: list[list[Tensor]], network: Any) -> Tensor:
        """``[n, atoms]`` of one observation."""
        x = obs.float().flatten()
        found = self._stream(x, streams[0], network.advantage).view(3, -1)
        if len(streams) == 1:
            return found
        return self._stream(x, streams[1], network.value)[None] + found - found.mean(dim=0)

    def q(self, outputs: Tensor) -> Tensor:
        """``[n]`` of what networks give."""
        config = self.config
        if config.distribution == "c51":
            support = torch.linspace(config.v_min, config.v_max, config.atoms)
            return torch.stack([sum(p * z for p, z in zip(row.softmax(0), support, strict=True)) for row in outputs])  # type: ignore[misc]
        return outputs.mean(dim=1)

    def update(self, batch: Any, generator: torch.Generator) -> list[float]:
        """One step; each row's error. Noise is drawn as the learner does."""
        config, losses, errors = self.config, [], []
        online, target = copy.deepcopy(self.learner.online), copy.deepcopy(self.learner.target)
        for network in (online, target) if config.noisy_sigma else ():
            draw_noise(network, generator)
        for row in range(len(batch["reward"])):
            obs, ahead = (torch.as_tensor(batch[name][row]) for name in ("obs", "next_obs"))
            chosen = self.outputs(obs, self.online, online)[int(batch["action"][row]) - 2]
            with torch.no_grad():
                following = self.outputs(ahead, self.target, target)
                chooser = self.outputs(ahead, self.online, online) if config.double_q else following
                best = following[int(self.q(chooser).argmax())]
            reward, discount = float(batch["reward"][row]), float(batch["discount"][row])
            loss, error = self.loss(chosen, best, reward, discount)
            losses.append(loss * (float(batch["weights"][row]) if config.per_alpha else 1.0))
            errors.append(float(error.detach()))
        self.optimizer.zero_grad()
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([layer for stream in self.online for layer in stream], config.max_grad_norm)
        self.optimizer.step()
        self.updates += 1
        if self.updates % config.target_update_interval == 0:
            for ours, theirs in zip(self.target, self.online, strict=True):
                for mine, other in zip(ours, theirs, strict=True):
                    mine.copy_(mine + config.tau * (other.detach() - mine))
        return errors

    def loss(self, chosen: Tensor, best: Tensor, reward: float, discount: float) -> tuple[Tensor, Tensor]:
        """Of one row."""
        config = self.config
        if config.distribution == "none":
            error = reward + discount * best[0] - chosen[0]
            size = error.abs()
            return torch.where(size < 1, error**2 / 2, size - 0.5), error
        if config.distribution == "c51":
            width = (config.v_max - config.v_min) / (config.atoms - 1)
            target = [0.0] * config.atoms
            for atom, p in enumerate(best.softmax(0).tolist()):
                z = reward + discount * (config.v_min + atom * width)
                place = (min(max(z, config.v_min), config.v_max) - config.v_min) / width
                for index in range(config.atoms):
                    target[index] += p * max(0.0, 1 - abs(place - index))
            loss = sum(-p * log for p, log in zip(target, chosen.log_softmax(0), strict=True))
            return loss, loss  # type: ignore[return-value]
        loss = torch.zeros(())
        for index, quantile in enumerate(chosen):
            tau = (index + 0.5) / config.atoms
            for other in best:
                u = reward + discount * other - quantile
                huber = torch.where(u.abs() < 1, u**2 / 2, u.abs() - 0.5)
                loss = loss + abs(tau - float(u < 0)) * huber / config.atoms
        return loss, loss


NOISY = ("weight", "bias", "weight_sigma", "bias_sigma")
