"""MADDPG with a network of one's own: residual blocks with layer norm, for policies and critics, on simple_spread.

python examples/maddpg_own_network.py
cd examples && relive train maddpg simple_spread --network maddpg_own_network:Residual --steps 100000
"""

import argparse

import torch
from torch import nn

import relive
from relive.agents.maddpg import MADDPGConfig


class Residual(nn.Module):
    """From rows [B, inputs] to [B, outputs]; every agent's policy and critic is one of these.

    A policy reads an agent's obs and gives logits, a critic reads all agents' obs and actions and gives Q.
    """

    def __init__(self, inputs, outputs, units=64, blocks=2):
        super().__init__()
        self.first, self.last = nn.Linear(inputs, units), nn.Linear(units, outputs)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(units), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, units))
            for _ in range(blocks)
        )

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(torch.relu(x))


class Print:
    """Prints every evaluation."""

    def on_evaluate(self, run, metrics):
        print(f"{run.steps:,} steps  return {metrics['return']:.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    config = MADDPGConfig(network=Residual, learning_starts=min(5_000, steps // 4), batch_size=512, update_every=50)
    relive.train(
        config,
        env="simple_spread",
        steps=steps,
        eval_every=steps // 5,
        video=False,
        callbacks=[Print()],
    )
