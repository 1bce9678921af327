// Networks and policies: edl/nets/mlp.py, edl/nets/distributions.py and SkillPolicy of edl/artifacts.py in JavaScript.
//
// Weights are the float32 numbers of the run. Sums are double precision, so results agree with Python's to rounding.

import { decodeArray, decodeRows } from "./arrays.js";

const ACTIVATIONS = { relu: (x) => (x > 0 ? x : 0), tanh: Math.tanh };
const MIN_CONCENTRATION = 1.05;
const EDGE = 1e-6;

/** A layer y = x W + b. `weights` has a row for each input. */
function makeLayer(weights, bias) {
  return { weights, bias, inputs: weights.length / bias.length, outputs: bias.length };
}

/** The layers of a network in the data of a page. */
export function decodeNetwork({ weights, biases, activation }) {
  const layers = weights.map((weight, i) => makeLayer(decodeArray(weight), decodeArray(biases[i])));
  return new Network(layers, activation);
}

export class Network {
  constructor(layers, activation) {
    this.layers = layers;
    this.activation = activation;
    this.values = layers.map((layer) => new Float64Array(layer.outputs));
    this.active = new Int32Array(Math.max(...layers.map((layer) => layer.inputs)));
  }

  /** The output for one input. The array is overwritten by the next call. */
  apply(x) {
    const last = this.layers.length - 1, activate = ACTIVATIONS[this.activation];
    for (let i = 0; i <= last; i++) {
      const y = this.values[i];
      this.multiply(this.layers[i], x, y);
      if (i < last) for (let j = 0; j < y.length; j++) y[j] = activate(y[j]);
      x = y;
    }
    return x;
  }

  /** y = x W + b. Inputs that are zero, half of them after a ReLU, are skipped; four outputs are summed at a time. */
  multiply({ weights, bias, outputs }, x, y) {
    const active = this.active;
    let count = 0;
    for (let i = 0; i < x.length; i++) if (x[i] !== 0) active[count++] = i;
    let j = 0;
    for (; j + 3 < outputs; j += 4) {
      let a = bias[j], b = bias[j + 1], c = bias[j + 2], d = bias[j + 3];
      for (let n = 0; n < count; n++) {
        const i = active[n], value = x[i], k = i * outputs + j;
        a += value * weights[k];
        b += value * weights[k + 1];
        c += value * weights[k + 2];
        d += value * weights[k + 3];
      }
      y[j] = a;
      y[j + 1] = b;
      y[j + 2] = c;
      y[j + 3] = d;
    }
    for (; j < outputs; j++) {
      let sum = bias[j];
      for (let n = 0; n < count; n++) sum += x[active[n]] * weights[active[n] * outputs + j];
      y[j] = sum;
    }
  }
}

/** The policy pi(a|s,z) of a run. */
export class Policy {
  constructor({ actor, mean, scale, distribution, integrate, codes }) {
    this.actor = decodeNetwork(actor);
    this.mean = decodeArray(mean);
    this.scale = decodeArray(scale);
    this.distribution = distribution;
    this.integrate = integrate;
    this.codes = decodeRows(codes);
  }

  /** The network from an observation to the parameters of the action distribution, for one code. */
  forCode(code) {
    const { weights, bias, outputs } = this.actor.layers[0];
    const size = this.mean.length;
    const first = weights.slice(0, size * outputs), shift = bias.slice();
    for (let j = 0; j < outputs; j++) {
      for (let z = 0; z < code.length; z++) shift[j] += code[z] * weights[(size + z) * outputs + j];
      if (this.integrate === "bilinear") this.addProducts(first, code, j);
      for (let i = 0; i < size; i++) {
        first[i * outputs + j] /= this.scale[i];
        shift[j] -= this.mean[i] * first[i * outputs + j];
      }
    }
    return new Network([makeLayer(first, shift), ...this.actor.layers.slice(1)], this.actor.activation);
  }

  /** The inputs s_i z_k of column j, as weights of the inputs s_i. */
  addProducts(first, code, j) {
    const { weights, outputs } = this.actor.layers[0];
    const size = this.mean.length, offset = size + code.length;
    for (let i = 0; i < size; i++) {
      for (let z = 0; z < code.length; z++) {
        first[i * outputs + j] += code[z] * weights[(offset + i * code.length + z) * outputs + j];
      }
    }
  }

  /** Write the mean action for the output of the network to `out`. */
  mode(params, out) {
    const { kind, low, high } = this.distribution, size = low.length;
    for (let i = 0; i < size; i++) {
      const unit = kind === "beta" ? betaMean(params[i], params[size + i]) : toUnit(params[i]);
      out[i] = low[i] + (high[i] - low[i]) * unit;
    }
  }

  /** Write a ~ pi(a|s,z) to `out`. */
  sample(random, params, out) {
    const { kind, low, high } = this.distribution, size = low.length;
    for (let i = 0; i < size; i++) {
      let unit;
      if (kind === "beta") {
        const drawn = random.beta(concentration(params[i]), concentration(params[size + i]));
        unit = Math.min(Math.max(drawn, EDGE), 1 - EDGE);
      } else {
        const deviation = Math.exp(Math.min(Math.max(params[size + i], -5), 2));
        unit = toUnit(params[i] + deviation * random.normal());
      }
      out[i] = low[i] + (high[i] - low[i]) * unit;
    }
  }
}

/** softplus(x) + 1.05. */
function concentration(x) {
  return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))) + MIN_CONCENTRATION;
}

function betaMean(first, second) {
  const alpha = concentration(first);
  return alpha / (alpha + concentration(second));
}

/** tanh(x), scaled from [-1, 1] to [0, 1]. */
function toUnit(x) {
  return (Math.min(Math.max(Math.tanh(x), EDGE - 1), 1 - EDGE) + 1) / 2;
}
