// How a run picks a skill for a place x: q(z|x) of EDL, and the rules of edl/baselines.
//
// `makeRule(data)` returns a function from [x, y] to {index} or {code}, or null for a run that has no rule of its own.

import { decodeArray, decodeRows } from "./arrays.js";
import { decodeNetwork } from "./networks.js";

const RULES = {
  /** EDL: the code nearest to the encoder's output, or that output itself if codes are continuous. */
  posterior({ encoder, mean, scale, codes, continuous }) {
    const network = encoder === null ? null : decodeNetwork(encoder);
    const rows = decodeRows(codes), offset = decodeArray(mean), unit = decodeArray(scale);
    const size = rows[0].length;
    return (place) => {
      const x = Float64Array.from(place, (value, i) => (value - offset[i]) / unit[i]);
      const z = (network === null ? x : network.apply(x)).slice(0, size);
      return continuous ? { code: z } : { index: nearestRow(z, rows) };
    };
  },

  /** argmax_z q(z|x) of a classifier. */
  classifier({ network }) {
    const classify = decodeNetwork(network);
    return (place) => ({ index: indexOfLargest(classify.apply(Float64Array.from(place))) });
  },

  /** argmax_z q(x|z) of Gaussians with equal variance. */
  nearest_mean({ means }) {
    const rows = decodeRows(means);
    return (place) => ({ index: nearestRow(place, rows) });
  },

  /** A goal-conditioned policy is told the place. */
  target() {
    return (place) => ({ code: Float64Array.from(place) });
  },

  /** METRA: the direction phi(x) - phi(s_0). */
  direction({ network, origin, discrete }) {
    const phi = decodeNetwork(network), start = decodeArray(origin);
    return (place) => {
      const way = phi.apply(Float64Array.from(place)).map((value, i) => value - start[i]);
      return discrete ? { index: indexOfLargest(way) } : { code: way.map((value) => value / Math.max(norm(way), 1e-6)) };
    };
  },

  /** VISR: phi(x) / |phi(x)|. */
  unit_features({ network }) {
    const phi = decodeNetwork(network);
    return (place) => {
      const found = phi.apply(Float64Array.from(place)).slice();
      const length = Math.sqrt(found.reduce((sum, value) => sum + value * value, 1e-12));
      return { code: found.map((value) => value / length) };
    };
  },

  /** VIC: argmax_z of the mean of q(z|s_0,x) over example starts. */
  likely_end({ network, starts }) {
    const classify = decodeNetwork(network), rows = decodeRows(starts);
    return (place) => {
      let mean = null;
      for (const start of rows) {
        const shares = softmax(classify.apply(Float64Array.from([...start, ...place])));
        mean = mean === null ? shares : mean.map((value, i) => value + shares[i]);
      }
      return { index: indexOfLargest(mean) };
    };
  },

  /** SNN4HRL: the most frequent skill of the nearest visited cell, on a grid that wraps around. */
  visited_cells({ places, winners, density, cells }) {
    const centres = decodeRows(places), skills = decodeArray(winners);
    const gap = (value) => ((((value + cells / 2) % cells) + cells) % cells) - cells / 2;
    return (place) => {
      let best = Infinity, index = 0;
      centres.forEach((centre, i) => {
        const x = gap(place[0] * density - centre[0] - 0.5), y = gap(place[1] * density - centre[1] - 0.5);
        if (x * x + y * y < best) [best, index] = [x * x + y * y, skills[i]];
      });
      return { index };
    };
  },
};

export function makeRule(data) {
  return data.kind === "practice" ? null : RULES[data.kind](data);
}

/** The skill whose ends are nearest to a place on average. `ends[k]` are the ends of skill k. */
export function nearestEnds(place, ends) {
  const means = ends.map((each) => each.reduce((sum, end) => sum + distance(end, place), 0) / each.length);
  return { index: indexOfLargest(means.map((value) => -value)) };
}

export function distance(a, b) {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}

function nearestRow(x, rows) {
  return indexOfLargest(rows.map((row) => -row.reduce((sum, value, i) => sum + (value - x[i]) ** 2, 0)));
}

/** The first index of the largest value. */
function indexOfLargest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

function softmax(logits) {
  const top = Math.max(...logits);
  const weights = Array.from(logits, (value) => Math.exp(value - top));
  const total = weights.reduce((sum, value) => sum + value, 0);
  return weights.map((value) => value / total);
}

function norm(x) {
  return Math.sqrt(x.reduce((sum, value) => sum + value * value, 0));
}
