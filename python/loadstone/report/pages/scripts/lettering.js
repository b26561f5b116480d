// Where words find room in a chart: in pixels, beside their point and across nothing else.

export const CHARACTER = 6.6; // of 12 px, in the mean: files are drawn where nothing can be measured
const LINE = 13;
const POINT = 4;

function textBox(text, x, y) {
  const half = text.length * CHARACTER / 2;
  return { left: x - half, right: x + half, top: y - LINE / 2, bottom: y + LINE / 2 };
}

export function pointBox([x, y]) {
  return { left: x - POINT, right: x + POINT, top: y - POINT, bottom: y + POINT };
}

// What a line through these places takes up, as a row of small boxes.
export function lineBoxes(places) {
  return places.slice(1).flatMap(([toX, toY], at) => {
    const [x, y] = places[at];
    const steps = Math.max(1, Math.floor(Math.max(Math.abs(toX - x), Math.abs(toY - y)) / 6));
    return Array.from({ length: steps + 1 }, (_, step) => pointBox([x + (toX - x) * step / steps, y + (toY - y) * step / steps]));
  });
}

// The first offset at which words lie inside the frame and across nothing taken, which then is taken too.
export function findRoom(text, [x, y], offsets, taken, frame) {
  for (const [right, down] of offsets) {
    const box = textBox(text, x + right, y + down);
    const isInside = box.left >= frame.left && box.right <= frame.right && box.top >= frame.top && box.bottom <= frame.bottom;
    if (isInside && !taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom)) {
      taken.push(box);
      return [x + right, y + down];
    }
  }
  return null;
}
