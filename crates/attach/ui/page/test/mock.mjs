// A server that answers as tranche serve --ui does, for the page's tests and for work on the page: node test/mock.mjs --scenario load
//
//   --scenario NAME   load (the default), empty, idle, locked (no faults, no power cuts), small (no zones)
//   --seed N          what the load looks like
//   --every MS        wall-clock time between samples, each of which stands for 500 ms of the drive
//   --before N        ticks that have passed when it starts
//   --port N          0 (the default) takes a free one; it prints its address when it is ready
//
// It ends when its standard input does. Tests steer it: POST /mock/gone, /mock/back (after a power cut, too), /mock/fail (the next change fails), and read what
// was asked of it: GET /mock/log.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { Model } from "./model.mjs";

const option = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : process.argv[at + 1];
};
const dist = fileURLToPath(new URL("../dist", import.meta.url));
const model = new Model(option("scenario", "load"), Number(option("seed", "7")));
const every = Number(option("every", "500"));
for (let ticks = Number(option("before", "0")); ticks > 0; ticks -= 1) model.tick();

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8" };
const POLICY = "default-src 'self'; frame-src 'self'; frame-ancestors 'none'; img-src 'self' data:";
const streams = new Set();
const log = [];
let failNext = "";

const send = (response, status, body) => {
  response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store", Connection: "close" });
  response.end(JSON.stringify(body));
};
const tell = (event, data) => {
  for (const stream of streams) stream.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
};

function file(path, response) {
  const name = path === "/" ? "/index.html" : normalize(path);
  try {
    const body = readFileSync(join(dist, name));
    response.writeHead(200, { "Content-Type": TYPES[extname(name)] ?? "application/octet-stream", "Content-Security-Policy": POLICY, "Cache-Control": "no-store", Connection: "close" });
    response.end(body);
  } catch {
    send(response, 404, { error: `There is no ${name}.` });
  }
}

function steer(what, body) {
  if (what === "gone") {
    model.gone = true;
    tell("gone", { reason: body.reason ?? "The drive has no power." });
  } else if (what === "back") {
    model.gone = false;
    tell("state", {});
  } else if (what === "fail") {
    failNext = body.error ?? "Namespace Insufficient Capacity: the set has too little room. Choose a smaller size.";
  }
}

function change(method, path, body, query) {
  const [, , kind, id, act] = path.split("/");
  const namespace = model.namespaces.find((other) => other.nsid === Number(id));
  if (kind === "namespaces" && id !== undefined && !namespace) return [404, { error: `There is no namespace ${id}.` }];
  if (kind === "namespaces" && method === "POST" && id === undefined) return [200, model.create(body)];
  if (kind === "namespaces" && method === "DELETE") {
    if (namespace.controllers.some((controller) => controller !== 1) && query.get("force") !== "true") return [409, { error: `Namespace ${id} is attached to other controllers.` }];
    model.namespaces = model.namespaces.filter((other) => other !== namespace);
    return [200, {}];
  }
  if (kind === "namespaces" && act === "attach") namespace.controllers = [1, 2];
  else if (kind === "namespaces" && act === "detach") namespace.controllers = [];
  else if (kind === "namespaces" && act === "quota") {
    const { save: _, ...quota } = body;
    Object.assign(namespace.quota, quota);
    return [200, namespace.quota];
  } else if (kind === "zones") {
    const error = model.zone(body.start, body.action);
    if (error) return [400, { error }];
  } else if (kind === "power-cut" || kind === "faults") {
    if (!model.allowed) return [403, { error: "The drive does not allow it." }];
    if (kind === "power-cut") steer("gone", { reason: "The power was cut." });
    else model.faults.push(body);
  } else return [404, { error: `There is no ${method} ${path}.` }];
  return [200, { nsid: Number(id) || undefined }];
}

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://mock");
  if (pathname === "/api/samples") {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    streams.add(response);
    response.on("close", () => streams.delete(response));
    response.write("event: state\ndata: {}\n\n");
    if (model.gone) response.write('event: gone\ndata: {"reason":"The drive has no power."}\n\n');
    return;
  }
  if (request.method === "GET") {
    if (pathname === "/mock/log") return send(response, 200, log);
    if (!pathname.startsWith("/api/")) return file(pathname, response);
    if (model.gone && pathname !== "/api/studies") return send(response, 503, { error: "The drive has no power. Wait until it is back." });
    if (pathname === "/api/state") return send(response, 200, model.state());
    if (pathname === "/api/map") {
      const map = model.map(Number(searchParams.get("set")));
      return map ? send(response, 200, map) : send(response, 404, { error: "There is no such set." });
    }
    if (pathname === "/api/zones") return send(response, 200, model.zoneList(Number(searchParams.get("nsid"))));
    if (pathname === "/api/studies")
      return send(response, 200, model.scenario === "empty" ? [] : [
        { name: "doublewrite", title: "The doublewrite buffer on NAND and on DRAM", url: "/studies/doublewrite/report.html" },
        { name: "quota", title: "Quotas, and the noisy neighbour", url: "/studies/quota/report.html" },
      ]);
    return send(response, 404, { error: `There is no ${pathname}.` });
  }
  let text = "";
  request.on("data", (part) => (text += part));
  request.on("end", () => {
    const body = text === "" ? {} : JSON.parse(text);
    if (pathname.startsWith("/mock/")) {
      steer(pathname.slice(6), body);
      return send(response, 200, {});
    }
    log.push({ method: request.method, path: request.url, body });
    if (request.headers["content-type"] !== "application/json") return send(response, 403, { error: "Content-Type must be application/json." });
    if (failNext !== "") {
      const error = failNext;
      failNext = "";
      return send(response, 400, { error });
    }
    const [status, answer] = change(request.method, pathname, body, searchParams);
    send(response, status, answer);
    if (status === 200) tell("state", {});
  });
});

setInterval(() => {
  if (model.gone) return;
  model.tick();
  tell("sample", model.sample());
}, every).unref();
server.listen(Number(option("port", "0")), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
process.stdin.on("end", () => process.exit(0)).resume();
