import { expect, test } from "bun:test";
import { masked, withoutSecrets } from "../src/secrets.ts";

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
