// Read an exported policy without conebandit: the probabilities of all arms in a context.
//
//     node examples/read_policy.js                              the policy beside this file, in the context (0.3,)
//     node examples/read_policy.js policy.json 0.3 0.7          your own, from json.dump(policy.export(), file)

const fs = require("fs");
const path = require("path");

// Walk from the root to a leaf.
function probabilities(policy, context) {
  if (context.length !== policy.bounds.length) throw new Error(`${policy.bounds.length} numbers are needed`);
  const point = context.map((value, i) => {
    const [low, high] = policy.bounds[i];
    if (!(low <= value && value <= high)) throw new Error(`${value} must lie between ${low} and ${high}`);
    return (value - low) / (high - low);
  });
  let node = policy.tree;
  while (!("probabilities" in node)) node = point[node.coordinate] < node.below ? node.low : node.high;
  return node.probabilities;
}

module.exports = { probabilities };

if (require.main === module) {
  const given = process.argv.slice(2);
  const [file, ...context] = given.length ? given : [path.join(__dirname, "policy.json"), "0.3"];
  const policy = JSON.parse(fs.readFileSync(file, "utf8"));
  console.log(JSON.stringify(probabilities(policy, context.map(Number))));
}
