import { changed, notADirectory, notAFile, notRegular, valueOnCodes } from "./file-error.ts";
import type { Accepts, FoundFile, Volume } from "./filesystem.ts";
import { type Place, whiteoutPrefix } from "./path.ts";

// The versions of two layers may be equal although their files differ.
const commonVersion = (version: string) => `common-${version}`;
const asCommon = (file: FoundFile): FoundFile =>
  file.version === undefined ? file : { ...file, version: commonVersion(file.version) };

/**
 * Layers a directory of a volume over the common files, which are read and never written. Writes go to the layer. A file
 * or directory of the layer replaces the common file of the same path; directories of both are merged. An empty file
 * `.wh.<name>` in the layer hides the common `<name>` with everything in it, even below a directory `<name>` of the layer.
 */
export function layeredVolume(volume: Volume, layer: readonly string[]): Volume {
  const inLayer = (place: Place): Place => ({ ...place, base: [...layer, ...place.base] });

  /**
   * Looks for a path in the layer: the type of its entry there, whether the common entry is hidden, and how many names
   * of the path are directories of the layer.
   */
  async function look(place: Place) {
    const names = [...place.base, ...place.names];
    let hides = false;
    for (let depth = 1; depth <= names.length; depth++) {
      const at = { ...place, base: layer, names: names.slice(0, depth) };
      const [entry, whiteout] = await Promise.all([volume.stat(at), volume.stat(whiteoutOf(at))]);
      // A command can write whiteouts too, and must not hide what steers the agent.
      hides ||= whiteout !== undefined && place.writable;
      if (entry?.type === "directory") continue;
      const isEnd = depth === names.length;
      hides ||= !isEnd && entry !== undefined; // no path leads through a file
      return { own: isEnd ? entry?.type : undefined, hides, depth: depth - 1 };
    }
    return { own: "directory", hides, depth: names.length };
  }

  /** Returns the place of a path in the layer that has it. */
  async function find(place: Place): Promise<Place> {
    if (place.isCommon) return place;
    const { own, hides } = await look(place);
    return own || hides ? inLayer(place) : place;
  }

  /** Throws if the common file above or at a path leaves no room for a file; returns whether it has one to replace. */
  async function isReplaceable(place: Place, depth: number): Promise<boolean> {
    const { base, names } = place;
    for (let length = names.length; base.length + length > depth && length > 0; length--) {
      const above = names.slice(0, length);
      const stat = await volume.stat({ ...place, names: above });
      if (!stat) continue;
      if (stat.type === "other") throw notRegular(stat.path, false);
      const isSame = length === names.length;
      if (isSame === (stat.type === "file")) return isSame;
      throw isSame ? notAFile(place.path) : notADirectory(above.join("/"));
    }
    return false;
  }

  /** Tracks all places that `look` visits, and the common one. */
  function trackWith(track: (place: Place) => () => string, place: Place): () => string {
    const names = [...place.base, ...place.names];
    const steps = names.map((_, index) => {
      const at = { ...place, base: layer, names: names.slice(0, index + 1) };
      return { entry: track(at), whiteout: track(whiteoutOf(at)) };
    });
    const common = track(place);
    return () => {
      const stamps = [common()];
      for (const { entry, whiteout } of steps) {
        const stamp = entry();
        stamps.push(stamp, whiteout());
        if (stamp === "") break; // nothing is below it
      }
      return stamps.join();
    };
  }

  const { track } = volume;
  const removeIfPresent = (place: Place) =>
    volume.remove(place).catch(valueOnCodes(undefined, "not_found"));

  return {
    absolute: (names) =>
      [[...layer, ...names], names].flatMap((base) => volume.absolute?.(base) ?? []),
    stat: async (place) => volume.stat(await find(place)),
    ...(track && {
      track: (place: Place) => (place.isCommon ? track(place) : trackWith(track, place)),
    }),
    async read(place) {
      const found = await find(place);
      const content = await volume.read(found);
      return found === place ? { ...content, version: commonVersion(content.version) } : content;
    },
    async write(place, data, { like, ...condition }) {
      const { own, hides, depth } = await look(place);
      const target = inLayer(place);
      const isCommon = !own && !hides && (await isReplaceable(place, depth));
      if (!isCommon) {
        return volume.write(target, data, { ...condition, like: like && (await find(like)) });
      }
      const { ifVersion } = condition;
      if (ifVersion === undefined) {
        return { ...(await volume.write(target, data, { like: place })), created: false };
      }
      const { version } = await volume.read(place);
      if (ifVersion !== commonVersion(version)) throw changed(place.path);
      const written = await volume.write(target, data, { ifVersion: null, like: place });
      if (!(await look(place)).hides) return { ...written, created: false };
      await removeIfPresent(target); // the common file was hidden after the first look
      throw changed(place.path);
    },
    async remove(place) {
      const { hides } = await look(place);
      const isCommon = !hides && (await volume.stat(place)) !== undefined;
      if (!isCommon) return volume.remove(inLayer(place));
      await volume.write(whiteoutOf(inLayer(place)), new Uint8Array(), {});
      await removeIfPresent(inLayer(place)); // perhaps another writer has just copied it
    },
    async list(place, { limit, accepts }) {
      const { own, hides } = await look(place);
      if (!own && !hides) return volume.list(place, { limit, accepts });
      const hidden = new Set<string>();
      const acceptsOwn = withWhiteouts(accepts, (path) => hidden.add(path));
      const { entries, cut } = await volume.list(inLayer(place), { limit, accepts: acceptsOwn });
      const isMerged = !hides && !cut && (await volume.stat(place))?.type === "directory";
      if (!isMerged) return { entries, cut };
      for (const { path } of entries) hidden.add(path);
      const more = await volume.list(place, {
        limit: limit - entries.length,
        accepts: (name, path) => accepts(name, path) && !hidden.has(path),
      });
      return { entries: [...entries, ...more.entries], cut: more.cut };
    },
    async walk(place, { accepts, visit, isOver }) {
      const { hides } = await look(place);
      const hidden = new Set<string>(); // by a whiteout or a file
      const owned = new Set<string>();
      const acceptsOwn = withWhiteouts(accepts, (path) => hidden.add(path));
      await volume.walk(inLayer(place), {
        isOver,
        accepts(name, path) {
          const isAccepted = acceptsOwn(name, path);
          if (isAccepted) owned.add(path);
          return isAccepted;
        },
        visit(files) {
          for (const { path } of files) hidden.add(path);
          return visit(files);
        },
      });
      if (hides || isOver()) return;
      await volume.walk(place, {
        isOver,
        accepts: (name, path) => accepts(name, path) && !hidden.has(path),
        visit: (files) => visit(files.filter(({ path }) => !owned.has(path)).map(asCommon)),
      });
    },
  };
}

function whiteoutOf(place: Place): Place {
  const { names } = place;
  return { ...place, names: [...names.slice(0, -1), `${whiteoutPrefix}${names.at(-1)}`] };
}

/** Reports the paths that whiteouts hide while a directory of the layer is read. */
function withWhiteouts(accepts: Accepts, onHidden: (path: string) => void): Accepts {
  return (name, path) => {
    if (!name.startsWith(whiteoutPrefix)) return accepts(name, path);
    const hiddenName = name.slice(whiteoutPrefix.length);
    onHidden(path.slice(0, path.length - name.length) + hiddenName);
    return false;
  };
}
