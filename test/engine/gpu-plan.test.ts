import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { gpuArguments } from "../../src/engine/gpu-arguments.ts";
import { type GpuPlanOptions, planGpu } from "../../src/engine/gpu-plan.ts";
import type { GpuSettings } from "../../src/engine/gpu-serving.ts";

/** What nvidia-smi says of cards sold with so many GB. */
const cards = { 8: 8_188, 16: 16_376, 24: 24_564, 80: 81_559 } as const;
/** Of Qwen3-4B and of the small model. */
const large = { parameters: 4_022_468_096, bytesPerToken: 147_456 };
const small = { parameters: 4_264_192, bytesPerToken: 2_560 };
const recipe: GpuSettings = { utilization: 0.7, maxModelLen: 32_768 };

function plan(card: keyof typeof cards, settings: Partial<GpuSettings> = {}, model = large) {
  const gpuMemoryBytes = cards[card] * 2 ** 20;
  return planGpu({ gpuMemoryBytes, model, settings: { ...recipe, ...settings } });
}

describe("the model of the recipe, with 4 billion parameters", () => {
  test("on 8 GB is served in 4 bits with a shorter context, and both are said", () => {
    const found = plan(8);
    expect(found).toMatchObject({ fits: true, quantization: "bitsandbytes", maxModelLen: 8_096 });
    expect(found.notes).toEqual([
      "served in 4 bits (bitsandbytes): 16 bits leave too little memory for the context",
      "context of 8096 tokens instead of 32768: more does not fit; --engine-gpu-memory-utilization 0.9 allows 19744",
    ]);
    expect(found.explanation).toEqual([
      "serving: 0.7 of 8.6 GB is 6.0 GB; without weights in 4 bits 2.8 and server 2.0 GB it leaves 1.2 GB of KV cache, 8096 tokens of 147.5 kB",
      "training: server asleep 0.9, weights in 4 bits 2.8 and trainer 3.0 are 6.7 GB of 8.6 GB free",
    ]);
  });

  test("on 16 GB is served as in the recipe: 4 bits, whole context", () => {
    expect(plan(16)).toMatchObject({ fits: true, quantization: "bitsandbytes", maxModelLen: 32_768 });
    expect(gpuArguments(plan(16))).toEqual([
      "--gpu-memory-utilization",
      "0.7",
      "--quantization",
      "bitsandbytes",
      "--enable-sleep-mode",
    ]);
  });

  test("on 24 and 80 GB is served in 16 bits, with nothing to note", () => {
    for (const card of [24, 80] as const) {
      expect(plan(card)).toMatchObject({ fits: true, quantization: "none", maxModelLen: 32_768, notes: [] });
      expect(gpuArguments(plan(card))).not.toContain("--quantization");
    }
  });

  test("on 4 GB does not fit, and --profile cpu is named", () => {
    const found = planGpu({ gpuMemoryBytes: 4_096 * 2 ** 20, model: large, settings: recipe });
    expect(found.fits).toBe(false);
    expect(found.problem?.message).toContain("the GPU's memory is too small; training: ");
    expect(found.problem?.remedy).toBe(
      "name a smaller model, use a GPU with more memory, or use --profile cpu",
    );
  });
});

test("the small model fits everywhere in 16 bits with its whole context", () => {
  for (const card of [8, 16, 24, 80] as const) {
    const found = plan(card, { maxModelLen: 1_024 }, small);
    expect(found).toMatchObject({ fits: true, quantization: "none", maxModelLen: 1_024, notes: [] });
  }
});

describe("what somebody asked for", () => {
  test("is kept where it fits", () => {
    expect(plan(80, { quantization: "bitsandbytes" }).quantization).toBe("bitsandbytes");
    expect(plan(16, { quantization: "none" })).toMatchObject({ fits: true, quantization: "none" });
    expect(plan(8, { utilization: 0.9, maxModelLen: 16_384, exactLength: true })).toMatchObject({
      fits: true,
      utilization: 0.9,
      maxModelLen: 16_384,
    });
  });

  test("is refused where it does not, with what to set", () => {
    const context = plan(8, { maxModelLen: 32_768, exactLength: true });
    expect(context.problem?.message).toContain("too small for a context of 32768 tokens; serving: ");
    expect(context.problem?.remedy).toStartWith("set --engine-max-model-len 8096, ");
    expect(plan(8, { quantization: "none" }).problem?.remedy).toStartWith(
      "set --engine-quantization bitsandbytes, ",
    );
    expect(plan(8, { utilization: 0.5 }).problem?.remedy).toStartWith(
      "set --engine-gpu-memory-utilization 0.9, ",
    );
    expect(plan(8, { utilization: 0.3, quantization: "none" }).problem?.remedy).toStartWith(
      "set --engine-quantization bitsandbytes --engine-gpu-memory-utilization 0.9, ",
    );
  });
});

test("a GPU that others use is told by what is free, not by its size", () => {
  const others = (freeBytes: number, settings: Partial<GpuSettings> = {}) =>
    planGpu({ gpuMemoryBytes: 80e9, freeBytes, model: large, settings: { ...recipe, ...settings } });
  const crowded = others(20e9);
  expect(crowded.problem?.message).toBe(
    "vLLM is to take 56.0 GB of the GPU's memory, and of 80.0 GB only 20.0 are free",
  );
  expect(crowded.problem?.remedy).toContain("lower --engine-gpu-memory-utilization (now 0.7)");
  expect(others(20e9, { utilization: 0.2 }).fits).toBe(true);
  expect(others(2e9).problem?.remedy).toContain("end what `nvidia-smi` lists on it");
  const tight: GpuPlanOptions = {
    gpuMemoryBytes: 10e9,
    freeBytes: 7.19e9,
    model: large,
    settings: { ...recipe, utilization: 0.4 },
  };
  expect(planGpu(tight).problem?.remedy).toStartWith("set --engine-gpu-memory-utilization 0.71, ");
  expect(planGpu({ ...tight, settings: { ...recipe, utilization: 0.6 } }).notes.at(-1)).toEndWith(
    "more does not fit; --engine-gpu-memory-utilization 0.71 allows 15488",
  );
});

test("a model that is only served needs no memory for training", () => {
  const options: GpuPlanOptions = {
    gpuMemoryBytes: 6e9,
    model: large,
    settings: { utilization: 0.9, maxModelLen: 2_048 },
  };
  expect(planGpu(options).fits).toBe(false);
  expect(planGpu({ ...options, purpose: "serve" })).toMatchObject({ fits: true });
});

describe("for any GPU, model and settings", () => {
  const power = (min: number, max: number) =>
    fc.double({ min, max, noNaN: true }).map((exponent) => 10 ** exponent);
  const request = fc.record({
    gpuMemoryBytes: power(9.5, 11),
    share: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
    model: fc.record({
      parameters: power(6, 10.5),
      bytesPerToken: fc.oneof(fc.constant(0), power(3, 6).map(Math.round)),
    }),
    settings: fc.record({
      utilization: fc.double({ min: 0.05, max: 0.95, noNaN: true }),
      maxModelLen: power(1.3, 5.3).map(Math.round),
      exactLength: fc.boolean(),
      quantization: fc.constantFrom(undefined, "none" as const, "bitsandbytes" as const),
    }),
  });
  const each = (holds: (options: GpuPlanOptions) => void) =>
    fc.assert(
      fc.property(request, ({ share, ...options }) =>
        holds({ ...options, freeBytes: options.gpuMemoryBytes * share }),
      ),
    );

  test("what fits holds weights and context in vLLM's share; what does not has a remedy for the CPU", () => {
    each((options) => {
      const { fits, problem, maxModelLen, quantization } = planGpu(options);
      const { gpuMemoryBytes, freeBytes, model, settings } = options;
      expect(fits).toBe(problem === undefined);
      if (problem !== undefined) return expect(problem.remedy).toContain("--profile cpu");
      const share = gpuMemoryBytes * settings.utilization;
      const weights = model.parameters * (quantization === "none" ? 2 : 0.5);
      expect(weights + maxModelLen * model.bytesPerToken).toBeLessThan(share);
      expect(share).toBeLessThanOrEqual(freeBytes as number);
      expect(maxModelLen).toBeLessThanOrEqual(settings.maxModelLen);
      if (settings.exactLength) expect(maxModelLen).toBe(settings.maxModelLen);
      else expect(maxModelLen).toBeGreaterThanOrEqual(Math.min(settings.maxModelLen, 2_048));
      if (settings.quantization !== undefined) expect(quantization).toBe(settings.quantization);
    });
  });

  test("more memory never takes context or fit away", () => {
    each((options) => {
      const more = { ...options, gpuMemoryBytes: options.gpuMemoryBytes * 1.5, freeBytes: 3e11 };
      const less = planGpu({ ...options, freeBytes: 3e11 });
      expect(planGpu(more).maxModelLen).toBeGreaterThanOrEqual(less.maxModelLen);
      if (less.fits) expect(planGpu(more).fits).toBe(true);
    });
  });

  test("a remedy that names settings makes it fit", () => {
    each((options) => {
      const remedy = planGpu(options).problem?.remedy ?? "";
      const value = (flag: string) => new RegExp(`${flag} ([\\w.]+)`).exec(remedy)?.[1];
      if (!remedy.startsWith("set ")) return;
      const length = value("--engine-max-model-len");
      const utilization = value("--engine-gpu-memory-utilization");
      const settings: GpuSettings = {
        ...options.settings,
        ...(length === undefined ? {} : { maxModelLen: Number(length) }),
        ...(utilization === undefined ? {} : { utilization: Number(utilization) }),
        ...(value("--engine-quantization") === undefined ? {} : { quantization: "bitsandbytes" }),
      };
      expect(planGpu({ ...options, settings }).problem).toBeUndefined();
    });
  });
});
