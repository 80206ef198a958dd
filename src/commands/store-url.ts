import { storeAddress, type StoreAddress } from "../client/store-address.ts";
import type { Config } from "../config.ts";
import { accessToken } from "./access-token.ts";

/** Where `agl store` listens unless told otherwise. */
export const defaultStoreUrl = "http://127.0.0.1:4747";

/** The store that the settings name, or the one that `agl store` serves by default, with the token for it. */
export function chosenStore(config: Config, environment: Record<string, string | undefined>): StoreAddress {
  return storeAddress(config["store.url"] ?? defaultStoreUrl, accessToken(config, environment));
}
