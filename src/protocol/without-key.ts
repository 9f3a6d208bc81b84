/**
 * Removes a key and returns the map, or a new map if it would be empty. A map links its table to the smaller one that a
 * delete creates, so the tables of a map that is empty again and again would all reach the old space.
 */
export function withoutKey<Key, Value>(map: Map<Key, Value>, key: Key): Map<Key, Value> {
  if (map.size === 1 && map.has(key)) return new Map();
  map.delete(key);
  return map;
}
