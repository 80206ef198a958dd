import { expect, test } from "bun:test";
import { storeAddress } from "../../src/client/store-address.ts";

test.each([
  ["http://box:4747", undefined, { url: "http://box:4747" }],
  ["http://box:4747///", undefined, { url: "http://box:4747" }],
  ["http://box:4747/below/", "given", { url: "http://box:4747/below", authorization: "Bearer given" }],
  ["http://box:4747/t/inside", undefined, { url: "http://box:4747", authorization: "Bearer inside" }],
  ["http://box:4747/t/inside/", "given", { url: "http://box:4747", authorization: "Bearer inside" }],
  ["https://box/below/t/inside", undefined, { url: "https://box/below", authorization: "Bearer inside" }],
  ["http://box:4747/t/a%20b", undefined, { url: "http://box:4747", authorization: "Bearer a b" }],
  // A name that only looks like the prefix.
  ["http://box:4747/t", undefined, { url: "http://box:4747/t" }],
  [
    "http://me:s%3Acret@box:4747/",
    undefined,
    { url: "http://box:4747", authorization: `Basic ${btoa("me:s:cret")}` },
  ],
])("%s with the token %p", (given, token, address) => {
  expect(storeAddress(given, token)).toEqual(address);
});
