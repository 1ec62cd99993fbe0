"""A network of one's own: attention in agents of QMIX, who fight three marines.

python examples/own_attention.py
cd examples && relive train qmix marines_3v3 --network own_attention:Attention
"""

import argparse

import torch
from torch import nn

import relive
from relive.agents.qmix import QMIXConfig

OTHERS = 5  # three enemies and two allies, of five numbers each


class Attention(nn.Module):
    """Reads rows [B, inputs] and gives values [B, outputs]; each agent asks the others whom to mind."""

    def __init__(self, inputs, outputs, units=32):
        super().__init__()
        self.own = nn.Linear(inputs - 5 * OTHERS, units)
        self.others = nn.Linear(5, units)
        self.attention = nn.MultiheadAttention(units, num_heads=4, batch_first=True)
        self.head = nn.Sequential(nn.Linear(2 * units, units), nn.ReLU(), nn.Linear(units, outputs))

    def forward(self, x):
        others = self.others(x[:, 4 : 4 + 5 * OTHERS].reshape(-1, OTHERS, 5))
        own = self.own(torch.cat([x[:, :4], x[:, 4 + 5 * OTHERS :]], dim=1))
        minded, _ = self.attention(own[:, None], others, others, need_weights=False)
        return self.head(torch.cat([own, minded[:, 0]], dim=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50_000)
    steps = parser.parse_args().steps
    result = relive.train(
        QMIXConfig(network=Attention),
        env="marines_3v3",
        steps=steps,
        eval_every=steps // 4,
        video=False,
    )
    won, found = result.metrics["battle_won"], result.metrics["return"]
    print(f"return {found:.1f}  battles won {won:.2f}  everything else is in {result.folder}")
