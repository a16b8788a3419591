/** The Python code that repeats what the page shows: same points, first weights, batches and optimiser. */
import { COUNTS, STREAM } from "./data";
import { ROW } from "./network";
import type { Recipe, Side } from "./state";
import { entryOf } from "./units";

const PLACES: Record<string, string> = {
  spiral: `    r = np.sqrt(u)
    angle = 3 * np.pi * r + np.pi * label
    x = np.stack((2.5 * r * np.cos(angle), 2.5 * r * np.sin(angle)), 1)
    noise = 0.08`,
  rings: `    r = 1 + 1.2 * label
    x = np.stack((r * np.cos(2 * np.pi * u), r * np.sin(2 * np.pi * u)), 1)
    noise = 0.18`,
  moons: `    side = 1 - 2 * label
    x = np.stack((1.5 * np.cos(np.pi * u) - 0.7, 1.5 * np.sin(np.pi * u) - 0.5), 1)
    x = side[:, None] * x
    noise = 0.18`,
  xor: `    left = 5 * u - 2.5
    same = np.where(left > 0, 1, -1)
    x = np.stack((left, (1 - 2 * label) * same * 2.5 * v), 1)
    noise = 0.08`,
};

const number = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value));

/** The call that makes the unit of one side, with these numbers. */
export function unitCall(key: string, numbers: number[], width: string): string {
  const entry = entryOf(key);
  const options = Object.entries(entry.fixed).map(([name, value]) => `${name}="${value}"`);
  entry.dials.forEach((dial, i) => {
    if (dial.option) options.push(`${dial.name}=${number(numbers[i])}`);
  });
  if (entry.channels) options.unshift(`channels=${width}`);
  return `gw.create_unit(${[`"${entry.unit}"`, ...options].join(", ")})`;
}

/** Lines that set numbers which are no options of the module. */
function settings(key: string, numbers: number[]): string[] {
  const entry = entryOf(key);
  const lines: string[] = [];
  entry.dials.forEach((dial, i) => {
    const value = number(numbers[i]);
    const entryOfTensor = /^(\w+)\[(\d+)\]$/.exec(dial.name);
    if (entryOfTensor) {
      const place = entry.unit === "pwlu" ? `0, ${entryOfTensor[2]}` : entryOfTensor[2];
      lines.push(`    unit.${entryOfTensor[1]}.data[${place}] = ${value}`);
    }
  });
  return lines;
}

function unitFunction(side: Side, r: Recipe): string {
  const { key, numbers } = r[side];
  const changes = r.changes.filter((change) => change.what === side);
  const lines = [`def unit_${side}(step=0):`];
  const body = (values: number[], indent: string): string[] => [
    `${indent}unit = ${unitCall(key, values, "WIDTH")}`,
    ...settings(key, values).map((line) => indent.slice(4) + line),
  ];
  if (!changes.length) {
    lines.push(...body(numbers, "    "));
  } else {
    [...changes].reverse().forEach((change, i) => {
      lines.push(`    ${i ? "elif" : "if"} step >= ${change.step}:`, ...body(change.numbers, "        "));
    });
    lines.push("    else:", ...body(numbers, "        "));
  }
  lines.push("    return unit.requires_grad_(False)  # its numbers are set by hand, not trained");
  return lines.join("\n");
}

export function pythonCode(r: Recipe, steps: number): string {
  const own = r.problem === "own";
  const sides = (["a", "b"] as Side[]).filter((side) => !entryOf(r[side].key).context);
  const rates = r.changes.filter((change) => change.what === "rate");
  const switches = [...new Set(r.changes.filter((c) => c.what !== "rate").map((c) => c.step))];
  const points = own
    ? `def points():
    rows = np.array(${JSON.stringify(r.own)}).reshape(-1, 3)
    return torch.tensor(rows[:, :2]), torch.tensor(rows[:, 2].astype(int))`
    : `def points(stream, count):  # ${r.problem}
    label = np.arange(count) % 2
    u, v = uniform(stream, np.arange(count)), uniform(stream + 1, np.arange(count))
${PLACES[r.problem]}
    radius = noise * np.sqrt(-2 * np.log(uniform(stream + 2, np.arange(count))))
    turn = 2 * np.pi * uniform(stream + 3, np.arange(count))
    x = x + np.stack((radius * np.cos(turn), radius * np.sin(turn)), 1)
    return torch.tensor(x), torch.tensor(label)`;
  const rate = rates.length
    ? `RATES = {${[`0: ${r.rate}`, ...rates.map((c) => `${c.step}: ${c.numbers[0]}`)].join(", ")}}`
    : `RATES = {0: ${r.rate}}`;
  return `import numpy as np
import torch
from torch import nn

import gatewise as gw

SEED, WIDTH, STEPS = ${r.seed}, ${r.width}, ${steps}
${rate}  # learning rate from this step on
SWITCHES = {${switches.join(", ")}}  # steps at which a number of a unit was moved


def uniform(stream, index):
    """The numbers of the page, from counters."""
    mask = np.uint64(0xFFFFFFFF)
    index = np.asarray(index).astype(np.uint64)
    start = ((SEED + 1) * 0x85EBCA6B + (stream + 1) * 0xC2B2AE35) & 0xFFFFFFFF
    h = (np.uint64(start) + (index + np.uint64(1)) * np.uint64(0x27D4EB2F)) & mask
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x7FEB352D)) & mask
    h = ((h ^ (h >> np.uint64(15))) * np.uint64(0x846CA68B)) & mask
    return ((h ^ (h >> np.uint64(16))).astype(float) + 0.5) / 2**32


${points}


def linear(place, rows, cols, fan_in):
    layer = nn.Linear(cols, rows).double()
    at = np.arange(rows)[:, None] * ${ROW} + np.arange(cols)
    weight = (6 / fan_in) ** 0.5 * (2 * uniform(${STREAM.weights} + 2 * place, at) - 1)
    bias = (2 * uniform(${STREAM.weights + 1} + 2 * place, np.arange(rows)) - 1) / fan_in**0.5
    layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(bias)
    return layer


${sides.map((side) => unitFunction(side, r)).join("\n\n\n")}


def network(unit):
    wide = unit()(torch.zeros(1, WIDTH)).shape[1]  # CReLU has two outputs for one response
    layers = linear(0, WIDTH, 2, 2), linear(1, WIDTH, wide, WIDTH), linear(2, 2, wide, WIDTH)
    return nn.Sequential(layers[0], unit().double(), layers[1], unit().double(), layers[2])


def train(unit):
    net = network(unit)
    parameters = [p for p in net.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=RATES[0])
    x, y = ${own ? "points()" : `points(${STREAM.train}, ${COUNTS.train})`}
    for step in range(STEPS):
        if step in SWITCHES:
            net[1], net[3] = unit(step).double(), unit(step).double()
        optimiser.param_groups[0]["lr"] = RATES.get(step, optimiser.param_groups[0]["lr"])
        batch = (uniform(${STREAM.batch} + step, np.arange(${COUNTS.batch})) * len(x)).astype(int)
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimiser.step()
    if STEPS in SWITCHES:
        net[1], net[3] = unit(STEPS).double(), unit(STEPS).double()
    return net


new_x, new_y = ${own ? "points()" : `points(${STREAM.test}, ${COUNTS.test})`}
plane = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).double()
nets = {}
for name, unit in {${sides.map((side) => `"${side}": unit_${side}`).join(", ")}}.items():
    net = nets[name] = train(unit)
    right = (net(new_x).argmax(1) == new_y).double().mean()
    print(name, f"{right:.1%} on ${own ? "these" : "new"} points;", gw.analysis.partition(net, plane, extent=(-3.0, 3.0, -3.0, 3.0)))
`;
}
