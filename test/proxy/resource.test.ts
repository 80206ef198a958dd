import { expect, test } from "bun:test";
import { asResource, proxyResource, resolveEndpoint } from "../../src/proxy/resource.ts";

test.each([
  ["http://h:1", "http://h:1/rollout/r1/attempt/a1"],
  ["http://h:1/", "http://h:1/rollout/r1/attempt/a1"],
  ["http://h:1/v1", "http://h:1/rollout/r1/attempt/a1/v1"],
  ["http://h:1/v1/", "http://h:1/rollout/r1/attempt/a1/v1"],
  ["http://h:1/api", "http://h:1/api/rollout/r1/attempt/a1"],
])("%s becomes %s", (endpoint, resolved) => {
  expect(resolveEndpoint(proxyResource(endpoint, "m"), "r1", "a1")).toBe(resolved);
});

test("without ids, and for a resource that is no proxy, the endpoint stays", () => {
  expect(resolveEndpoint(proxyResource("http://h:1/", "m"), null, null)).toBe("http://h:1/");
  expect(resolveEndpoint({ resource_type: "llm", endpoint: "http://h:1/v1" }, "r1", "a1")).toBe(
    "http://h:1/v1",
  );
});

test.each([
  ["r1", null],
  [null, "a1"],
  ["r1", ""],
])("one id of two is an error: %p, %p", (rolloutId, attemptId) => {
  expect(() => resolveEndpoint(proxyResource("http://h:1", "m"), rolloutId, attemptId)).toThrow(/endpoint/);
});

test("ids are escaped", () => {
  expect(resolveEndpoint(proxyResource("http://h:1", "m"), "a/b", "c d")).toBe(
    "http://h:1/rollout/a%2Fb/attempt/c%20d",
  );
});

test("the resource is what runners of the original read", () => {
  expect(proxyResource("http://h:1", "m", { temperature: 0 })).toEqual({
    resource_type: "proxy_llm",
    endpoint: "http://h:1",
    model: "m",
    api_key: null,
    sampling_parameters: { temperature: 0 },
  });
});

const one = [{ modelName: "m" }, { modelName: "m" }];

test("without ids it is the proxy, with both the attempt's own model", () => {
  const endpoint = "http://h:1/v1";
  expect(asResource({ endpoint, upstreams: one, samplingParameters: { temperature: 0 } })).toEqual({
    resource_type: "proxy_llm",
    endpoint,
    model: "m",
    api_key: null,
    sampling_parameters: { temperature: 0 },
  });
  expect(asResource({ endpoint, upstreams: one, rolloutId: "r1", attemptId: "a1" })).toMatchObject({
    resource_type: "llm",
    endpoint: "http://h:1/rollout/r1/attempt/a1/v1",
  });
});

test("one id of two, and a model that is not clear, are errors", () => {
  const endpoint = "http://h:1";
  const two = [{ modelName: "a" }, { modelName: "b" }];
  expect(() => asResource({ endpoint, upstreams: one, rolloutId: "r1" })).toThrow(/attempt id null/);
  expect(() => asResource({ endpoint, upstreams: [] })).toThrow(/the model list is empty/);
  expect(() => asResource({ endpoint, upstreams: two })).toThrow(/the list has a, b/);
  expect(asResource({ endpoint, upstreams: two, model: "b" }).model).toBe("b");
});
