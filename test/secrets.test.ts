import { expect, test } from "bun:test";
import { masked, maskedCommand, withoutSecrets } from "../src/secrets.ts";

test("secret settings are not shown", () => {
  expect(masked("engine.api_key", "sk-1")).toBe("********");
  expect(masked("token", "t")).toBe("********");
  expect(masked("engine.url", "http://me:pass@box:1/v1")).toBe("http://********@box:1/v1");
  expect(masked("store.url", "http://box:4747/t/abc")).toBe("http://box:4747/t/********");
  expect(masked("token", undefined)).toBeUndefined();
  expect(masked("trainer.max_tokens", 5)).toBe(5);
  expect(masked("token_file", "/etc/agl/token")).toBe("/etc/agl/token");
});

test.each([
  ["http://box/t/abc/v1/agl/health", "http://box/t/********/v1/agl/health"],
  ["two: http://a/t/x and https://b/below/t/y.", "two: http://a/t/******** and https://b/below/t/********"],
  ["a file /t/abc is no address", "a file /t/abc is no address"],
  ["http://box/tt/abc", "http://box/tt/abc"],
])("%s", (text, shown) => {
  expect(withoutSecrets(text)).toBe(shown);
});

test.each([
  ["agl proxy --engine-api-key sk-1 --proxy-port 1", "agl proxy --engine-api-key ******** --proxy-port 1"],
  ["vllm --api-key=sk-1 --port 1", "vllm --api-key=******** --port 1"],
  ["agl runners --store-url http://box/t/abc", "agl runners --store-url http://box/t/********"],
  ["agl store --token-file token --port 1", "agl store --token-file token --port 1"],
  ["serve --hotkey none", "serve --hotkey none"],
])("the command line %s", (command, shown) => {
  expect(maskedCommand(command.split(" "))).toBe(shown);
});
