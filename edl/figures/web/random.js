// Seeded random numbers, so that a link reproduces what it shows.

/** The generator sfc32 (Doty-Humphrey, PractRand). Streams of different numbers in `seeds` are independent. */
export class Random {
  constructor(...seeds) {
    this.a = 0x9e3779b9;
    this.b = 0x243f6a88;
    this.c = 0xb7e15162;
    this.counter = 1;
    for (const seed of seeds) {
      this.a ^= seed >>> 0;
      this.b ^= Math.floor(seed / 2 ** 32) >>> 0;
      for (let i = 0; i < 15; i++) this.bits();
    }
  }

  /** 32 random bits. */
  bits() {
    const sum = (((this.a + this.b) | 0) + this.counter) | 0;
    this.counter = (this.counter + 1) | 0;
    this.a = this.b ^ (this.b >>> 9);
    this.b = (this.c + (this.c << 3)) | 0;
    this.c = ((((this.c << 21) | (this.c >>> 11)) | 0) + sum) | 0;
    return sum >>> 0;
  }

  /** A uniform number in the open interval (0, 1). */
  uniform() {
    return (this.bits() + 0.5) / 4294967296;
  }

  /** A standard normal number (Box and Muller, 1958). */
  normal() {
    return Math.sqrt(-2 * Math.log(this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  /** A number of Beta(alpha, beta) with alpha, beta > 1, by Cheng's algorithm BB (1978). */
  beta(alpha, beta) {
    const small = Math.min(alpha, beta), large = Math.max(alpha, beta), total = alpha + beta;
    const rate = Math.sqrt((total - 2) / (2 * alpha * beta - total));
    for (;;) {
      const u = this.uniform(), v = rate * Math.log(u / (1 - u));
      const w = small * Math.exp(v);
      const r = (small + 1 / rate) * v - Math.log(4);
      if (r + total * Math.log(total / (large + w)) >= Math.log(u * u * this.uniform())) {
        return (alpha <= beta ? w : large) / (large + w);
      }
    }
  }
}
