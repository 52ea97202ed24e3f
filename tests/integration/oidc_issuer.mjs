// An OpenID Connect issuer: one client with the device flow, and people who log in by their name alone.
// FOLDER of node_modules, PORT and KEYS (a file with a JWK set of private keys). With REDIRECT the client logs in by a
// browser, too, which comes back to that URI; with SECRET it is no public one.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, port, keys, redirect, secret] = process.argv.slice(2);
const entry = createRequire(`${folder}/package.json`).resolve("oidc-provider");
const { Provider } = await import(pathToFileURL(entry));

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: "gosched",
    token_endpoint_auth_method: secret ? "client_secret_basic" : "none",
    client_secret: secret || undefined,
    application_type: redirect ? "web" : "native",
    grant_types: [
      "urn:ietf:params:oauth:grant-type:device_code", "refresh_token", ...(redirect ? ["authorization_code"] : []),
    ],
    response_types: redirect ? ["code"] : [],
    redirect_uris: redirect ? [redirect] : [],
  }],
  jwks: JSON.parse(readFileSync(keys)),
  cookies: { keys: ["for tests alone"] },
  conformIdTokenClaims: false, // the claims of a person are in the ID token, as with most issuers
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  features: {
    deviceFlow: { enabled: true },
    devInteractions: { enabled: true },
    revocation: { enabled: true },
  },
  ttl: { IdToken: 3600, AccessToken: 3600, DeviceCode: 60, Session: 600, Grant: 3600, Interaction: 600, RefreshToken: 3600 },
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  findAccount: async (_, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, email: `${id}@example.com`, email_verified: true, groups: ["ml", "admins"] }),
  }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listens"));
