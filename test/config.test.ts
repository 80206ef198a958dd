import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import fc from "fast-check";
import { resolveConfig } from "../src/config.ts";
import { UsageError } from "../src/errors.ts";
import { environmentNameOf, flagOf, settings } from "../src/settings.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

const folder = temporaryFolder();

function refusal(input: Parameters<typeof resolveConfig>[0]): string {
  try {
    resolveConfig({ folder, ...input });
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as UsageError).message;
  }
  throw new Error("was not refused");
}

describe("settings", () => {
  // W-2
  test("have defaults that need nobody", () => {
    const { config, sources } = resolveConfig({ folder });
    expect(config["store.port"]).toBe(4747);
    expect(config["proxy.port"]).toBe(12358);
    expect(config["runners.count"]).toBe(4);
    expect(config.iterations).toBe(2);
    expect(config["selection.rule"]).toBe("above-mean");
    expect(config["selection.fraction"]).toBe(0.5);
    expect(new Set(Object.values(sources))).toEqual(new Set(["default"]));
  });

  test("rise from agl.toml over the environment to flags", async () => {
    const own = join(folder, "precedence");
    await Bun.write(join(own, "agl.toml"), "\uFEFFseed = 1\niterations = 1\n[store]\nport = 1001\n");
    const { config, sources } = resolveConfig({
      folder: own,
      environment: { AGL_SEED: "2", AGL_STORE_PORT: "1002" },
      flags: { "store.port": "1003" },
    });
    expect(config).toMatchObject({ seed: 2, iterations: 1, "store.port": 1003 });
    expect(sources).toMatchObject({ seed: "environment", iterations: "agl.toml", "store.port": "flag" });
  });

  test("cannot be changed afterwards", () => {
    expect(Object.isFrozen(resolveConfig({ folder }).config)).toBe(true);
  });

  test("have distinct flags and environment names", () => {
    const names = Object.keys(settings);
    expect(new Set(names.map(flagOf)).size).toBe(names.length);
    expect(new Set(names.map(environmentNameOf)).size).toBe(names.length);
  });
});

// O28
describe("a slip in the settings is refused", () => {
  test("with the nearest valid name, in the file and in the environment", async () => {
    const own = join(folder, "typo");
    await Bun.write(join(own, "agl.toml"), "iteration = 3\n[engine]\nmax_model_length = 5\n");
    const message = refusal({ folder: own, environment: { AGL_SEDE: "1" } });
    expect(message).toContain("agl.toml: no setting is named iteration; did you mean iterations?");
    expect(message).toContain("did you mean engine.max_model_len?");
    expect(message).toContain("no setting is named AGL_SEDE; did you mean AGL_SEED?");
  });

  test("with the value and what is expected", async () => {
    const own = join(folder, "types");
    await Bun.write(join(own, "agl.toml"), 'seed = "5"\n');
    const message = refusal({
      folder: own,
      flags: { "runners.count": "-3", "selection.rule": "best", "selection.fraction": "1.5" },
    });
    expect(message).toContain('agl.toml: seed: expected a whole number of at least 0, not "5"');
    expect(message).toContain('--runners-count: expected a whole number from 1 to 256, not "-3"');
    expect(message).toContain('--selection-rule: expected one of above-mean, recipe, not "best"');
    expect(message).toContain('--selection-fraction: expected a number from 0.001 to 1, not "1.5"');
  });

  test("when the file is no TOML", async () => {
    const own = join(folder, "broken");
    await Bun.write(join(own, "agl.toml"), "seed = = 1");
    expect(refusal({ folder: own })).toStartWith("agl.toml: ");
  });

  test("whatever text is given as a port", () => {
    fc.assert(
      fc.property(fc.string(), (given) => {
        const number = Number(given);
        fc.pre(given.trim() === "" || !(Number.isInteger(number) && number >= 1 && number <= 65_535));
        expect(refusal({ flags: { "store.port": given } })).toContain(
          "--store-port: expected a whole number",
        );
      }),
    );
  });
});
