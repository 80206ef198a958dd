import { expect, test } from "bun:test";
import { CauseFinder } from "../../src/engine/cause.ts";

function causeOf(lines: string[]): string | undefined {
  const finder = new CauseFinder();
  for (const line of lines) finder.see(line);
  return finder.cause();
}

// O40: the worker prints the true cause far above the last trace.
test("the first named error wins over the follow-ups below it", () => {
  const noise = Array.from(
    { length: 150 },
    (_, index) => `(EngineCore pid=7) INFO 11-29 23:13:44 [x.py:1] step ${index}`,
  );
  expect(
    causeOf([
      ...noise,
      "(EngineCore pid=7) ERROR 11-29 23:13:45 [core.py:9] ValueError: the model has 3 heads, expected 4",
      ...noise,
      "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]),
  ).toBe("ValueError: the model has 3 heads, expected 4");
});

test("errors with a dotted name, missing modules and plain error lines are found", () => {
  expect(causeOf(["x", "torch.OutOfMemoryError: no memory", "y"])).toBe("torch.OutOfMemoryError: no memory");
  expect(causeOf(["/usr/bin/python: No module named vllm"])).toBe("No module named vllm");
  expect(causeOf(["starting", "api_server.py: error: unrecognized arguments: --nope"])).toBe(
    "error: unrecognized arguments: --nope",
  );
});

test("without any error the last line is given, and nothing when nothing was printed", () => {
  expect(causeOf(["one", "two", ""])).toBe("two");
  expect(causeOf([])).toBeUndefined();
});

test("an error that only announces the next line is told with it", () => {
  expect(
    causeOf([
      "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
      "  Value error, User-specified max_model_len (32768) is greater than the derived max_model_len",
      "For further information visit",
    ]),
  ).toBe(
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig: " +
      "Value error, User-specified max_model_len (32768) is greater than the derived max_model_len",
  );
  expect(causeOf(["ValueError: Couldn't load from one of:", "- a file"])).toBe(
    "ValueError: Couldn't load from one of: - a file",
  );
});

test("a module that is missing is named without what stands around it", () => {
  const line = "python3: Error while finding module (ModuleNotFoundError: No module named 'vllm')";
  expect(causeOf([line])).toBe("No module named 'vllm'");
});
