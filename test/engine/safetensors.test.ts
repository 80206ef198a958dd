import { expect, test } from "bun:test";
import fc from "fast-check";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { hashTensor, readTensors } from "../../src/engine/safetensors.ts";
import { safetensors, type TestTensor } from "../helpers/safetensors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const file = join(temporaryFolder(), "model.safetensors");

const tensor = fc
  .uint8Array({ maxLength: 32 })
  .map((bytes): TestTensor => ({ dtype: "U8", shape: [bytes.length], bytes: [...bytes] }));
const tensors = fc.dictionary(fc.stringMatching(/^[a-z][a-z.0-9]{0,20}$/), tensor, {
  minKeys: 1,
  maxKeys: 5,
});

test("every tensor is found with its bytes", () => {
  fc.assert(
    fc.property(tensors, (written) => {
      writeFileSync(file, safetensors(written));
      const read = readTensors(file);
      expect([...read.keys()].toSorted()).toEqual(Object.keys(written).toSorted());
      for (const [name, { bytes }] of Object.entries(written)) {
        const expected = new Bun.CryptoHasher("sha256").update(new Uint8Array(bytes)).digest("hex");
        expect(hashTensor(file, read.get(name)!)).toBe(expected);
      }
    }),
    { numRuns: 50 },
  );
});

test("a file cut anywhere is refused", () => {
  fc.assert(
    fc.property(tensors, fc.nat(), (written, at) => {
      const whole = safetensors(written);
      writeFileSync(file, whole.subarray(0, at % whole.length));
      expect(() => readTensors(file)).toThrow();
    }),
    { numRuns: 100 },
  );
});
