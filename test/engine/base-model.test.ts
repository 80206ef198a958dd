import { describe, expect, test } from "bun:test";
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { baseModelProblems, type ModelUse } from "../../src/engine/base-model-check.ts";
import { checkBaseModel } from "../../src/engine/base-model.ts";
import { UsageError } from "../../src/errors.ts";
import { causalConfig, hollowWeights, modelFolder } from "../helpers/model-folder.ts";
import { safetensors, type TestTensor } from "../helpers/safetensors.ts";

const smallModel = join(import.meta.dir, "..", "..", "data", "small-model");
const tensor: TestTensor = { dtype: "F32", shape: [1], bytes: [1, 2, 3, 4] };
const weights = safetensors({ a: tensor });
const withoutWeights = { "model.safetensors": undefined };

function refusal(folder: string, use: ModelUse = {}): UsageError {
  try {
    checkBaseModel(folder, use);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).message).not.toContain("\n");
    expect((error as UsageError).remedy).not.toContain("\n");
    return error as UsageError;
  }
  throw new Error("was not refused");
}

function config(changes: Record<string, unknown>): string {
  return JSON.stringify({ ...causalConfig, ...changes });
}

test("the small model and any whole folder are taken", () => {
  const use: ModelUse = { profile: "cpu", availableMemoryBytes: 8e9, contextLength: 1024 };
  expect(baseModelProblems(smallModel, use)).toEqual([]);
  expect(baseModelProblems(modelFolder(), use)).toEqual([]);
});

describe("the kind of weights", () => {
  test("an adapter without its base is refused, with how to merge it", () => {
    const folder = modelFolder({
      ...withoutWeights,
      "adapter_config.json": "{}",
      "adapter_model.safetensors": weights,
    });
    const { message, remedy } = refusal(folder);
    expect(message).toContain("it is only an adapter (adapter_config.json), without the weights of its base");
    expect(remedy).toContain(
      `AutoPeftModelForCausalLM as M; M.from_pretrained('${folder}').merge_and_unload()`,
    );
  });

  test("an adapter beside the weights of its base is no obstacle", () => {
    const folder = modelFolder({ "adapter_config.json": "{}", "adapter_model.safetensors": "cut" });
    expect(baseModelProblems(folder)).toEqual([]);
  });

  test("GGUF alone is refused", () => {
    const { message, remedy } = refusal(modelFolder({ ...withoutWeights, "model-q4.gguf": "GGUF" }));
    expect(message).toContain("its weights are GGUF, which can be served but not trained");
    expect(remedy).toContain("name the model that the GGUF file was made from");
  });

  test("pickles alone are refused, with how to convert them", () => {
    const { message, remedy } = refusal(modelFolder({ ...withoutWeights, "pytorch_model.bin": "x" }));
    expect(message).toContain("its weights are pickles (*.bin)");
    expect(remedy).toContain("save_pretrained('CONVERTED')");
  });

  test("none are refused", () => {
    expect(refusal(modelFolder(withoutWeights)).message).toContain("it holds no weights (*.safetensors)");
  });

  test("quantised ones can be served but not improved", () => {
    const folder = modelFolder({ "config.json": config({ quantization_config: { quant_method: "awq" } }) });
    expect(refusal(folder).message).toContain("its weights are quantised");
    expect(baseModelProblems(folder, { purpose: "serve" })).toEqual([]);
  });
});

describe("incomplete weights", () => {
  const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] as const;
  const index = JSON.stringify({ weight_map: { a: shards[0], b: shards[1] } });
  const sharded = (changes: Record<string, string | Uint8Array | undefined> = {}) =>
    modelFolder({
      ...withoutWeights,
      "model.safetensors.index.json": index,
      [shards[0]]: weights,
      [shards[1]]: safetensors({ b: tensor }),
      ...changes,
    });

  test("all shards that the index names make a whole model", () => {
    expect(baseModelProblems(sharded())).toEqual([]);
  });

  test("a shard that is missing is named", () => {
    expect(refusal(sharded({ [shards[1]]: undefined })).message).toContain(`${shards[1]} is missing`);
  });

  test("a shard that is shorter than its header says is named, with both lengths", () => {
    const folder = sharded();
    truncateSync(join(folder, shards[1]), weights.length - 1);
    const { message, remedy } = refusal(folder);
    expect(message).toContain(
      `${shards[1]} is incomplete: it has ${weights.length - 1} bytes instead of ${weights.length}`,
    );
    expect(remedy).toBe("copy or download the model again");
  });

  test("shards without their index are refused", () => {
    expect(refusal(sharded({ "model.safetensors.index.json": undefined })).message).toContain(
      "model.safetensors.index.json, which says what each of the weight files holds, is missing",
    );
  });

  test("a pointer of git-lfs is told from weights", () => {
    const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n";
    const { message, remedy } = refusal(modelFolder({ "model.safetensors": pointer }));
    expect(message).toContain("model.safetensors is only a pointer of git-lfs");
    expect(remedy).toContain("git lfs pull");
  });

  test("wherever a file is cut", () => {
    for (let length = 0; length < weights.length; length++) {
      const folder = modelFolder({ "model.safetensors": weights.slice(0, length) });
      expect(refusal(folder).message).toContain("model.safetensors is incomplete: ");
    }
  });
});

describe("what belongs to the weights", () => {
  test("a folder without tokenizer is refused", () => {
    expect(refusal(modelFolder({ "tokenizer.json": undefined })).message).toContain("it holds no tokenizer");
  });

  test("a folder without chat template is refused; one inside tokenizer_config.json counts", () => {
    const without = { "chat_template.jinja": undefined };
    const { message, remedy } = refusal(modelFolder({ ...without, "tokenizer_config.json": "{}" }));
    expect(message).toContain("it holds no chat template");
    expect(remedy).toContain("instruct or chat variant");
    const inside = JSON.stringify({ chat_template: "{{ messages }}" });
    expect(baseModelProblems(modelFolder({ ...without, "tokenizer_config.json": inside }))).toEqual([]);
  });

  test.each([
    ["Qwen3ForSequenceClassification", "says Qwen3ForSequenceClassification"],
    ["T5ForConditionalGeneration", "says T5ForConditionalGeneration"],
    ["BertModel", "says BertModel"],
  ])("a model that is %s is refused", (name, said) => {
    const { message } = refusal(modelFolder({ "config.json": config({ architectures: [name] }) }));
    expect(message).toContain(`it is no causal language model: config.json ${said}`);
  });

  test("GPT-2's architecture counts as causal", () => {
    const folder = modelFolder({ "config.json": config({ architectures: ["GPT2LMHeadModel"] }) });
    expect(baseModelProblems(folder)).toEqual([]);
  });

  test("a configuration that is missing, broken or of other types is refused", () => {
    expect(refusal(modelFolder({ "config.json": undefined })).message).toContain("it holds no config.json");
    for (const text of ["{", "3", '{"architectures": 3}', '{"num_hidden_layers": "many"}']) {
      expect(refusal(modelFolder({ "config.json": text })).message).toContain(
        "its config.json cannot be read",
      );
    }
  });

  test("a folder that does not exist, or is a file, is refused", () => {
    const folder = modelFolder();
    expect(refusal(join(folder, "nothing")).message).toContain("it does not exist");
    expect(refusal(join(folder, "model.safetensors")).message).toContain("it is a file, not a folder");
  });

  test("everything that is wrong is found at once", () => {
    const folder = modelFolder({ "tokenizer.json": undefined, "chat_template.jinja": undefined });
    truncateSync(join(folder, "model.safetensors"), 20);
    expect(baseModelProblems(folder)).toHaveLength(3);
  });
});

describe("memory", () => {
  const large = (parameters: number) => {
    const { header, length } = hollowWeights(parameters);
    const folder = modelFolder({ "model.safetensors": header });
    truncateSync(join(folder, "model.safetensors"), length);
    return folder;
  };

  test("a model too large for the memory at hand is refused, with the sum", () => {
    const folder = large(4e9);
    const { message } = refusal(folder, { profile: "cpu", availableMemoryBytes: 24e9 });
    expect(message).toContain(
      "it is too large: weights 8.0 + KV cache 1.1 + server 2.3 + trainer 25.0 GB = 36.4 GB, and 24.0 GB of memory are free",
    );
    expect(baseModelProblems(folder, { profile: "cpu", availableMemoryBytes: 37e9 })).toEqual([]);
    expect(
      baseModelProblems(folder, { profile: "cpu", availableMemoryBytes: 12e9, purpose: "serve" }),
    ).toEqual([]);
  });

  test("on a GPU its own memory counts, not the machine's", () => {
    const folder = large(4e9);
    const gpuOf = (bytes: number): ModelUse => ({
      profile: "cuda",
      availableMemoryBytes: 1,
      gpu: { totalBytes: bytes, freeBytes: bytes, utilization: 0.7 },
    });
    const { message, remedy } = refusal(folder, gpuOf(4e9));
    expect(message).toContain("the GPU's memory is too small");
    expect(remedy).toContain("--profile cpu");
    expect(baseModelProblems(folder, gpuOf(16e9))).toEqual([]);
  });

  test("a context whose keys and values do not fit into the CPU's cache is refused with the longest that does", () => {
    // 2 (keys, values) * 2 bytes * 4 layers * 2 heads * 16
    const perToken = 512;
    const longest = Math.floor(2 ** 30 / perToken);
    const folder = modelFolder();
    expect(baseModelProblems(folder, { profile: "cpu", contextLength: longest })).toEqual([]);
    const { remedy } = refusal(folder, { profile: "cpu", contextLength: longest + 1 });
    expect(remedy).toBe(`set --engine-max-model-len to ${longest} or less`);
    expect(baseModelProblems(folder, { profile: "cuda", contextLength: longest + 1 })).toEqual([]);
  });

  test("the small model's own numbers agree with its file", () => {
    const bytes = readFileSync(join(smallModel, "model.safetensors")).length;
    const use: ModelUse = { profile: "cpu", purpose: "serve", availableMemoryBytes: 1e9 };
    const { message } = refusal(smallModel, use);
    expect(message).toContain(`weights ${(bytes / 1e9).toFixed(1)} + KV cache 1.1 + server 2.3 GB = 3.4 GB`);
  });
});

test("a template that is no file of text in tokenizer_config.json does not count", () => {
  const folder = modelFolder({ "chat_template.jinja": undefined });
  for (const text of ["", "{", "null", '{"chat_template": 3}']) {
    writeFileSync(join(folder, "tokenizer_config.json"), text);
    expect(refusal(folder).message).toContain("it holds no chat template");
  }
});
