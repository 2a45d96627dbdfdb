// Runs the script of a page that `rpcrdma explain ladder --html` wrote against a document that is just large enough, clicks on the
// first row twice, and prints what is shown. It stands for a browser, which a machine that tests does not have.
const fs = require('fs');
const page = fs.readFileSync(process.argv[2], 'utf8');
const script = page.match(/<script>([\s\S]*)<\/script>/)[1];

class Element {
  constructor(name) {
    this.name = name;
    this.children = [];
    this.attributes = {};
    this.value = '';
    this.text = '';
  }
  set textContent(value) {
    this.text = value;
    this.children = [];
  }
  get textContent() { return this.text; }
  setAttribute(key, value) { this.attributes[key] = value; }
  append(...all) {
    for (const each of all) {
      each.parent = this;
      this.children.push(each);
    }
  }
  get index() { return this.parent.children.indexOf(this); }
  get nextSibling() { return this.parent.children[this.index + 1]; }
  after(other) {
    other.parent = this.parent;
    this.parent.children.splice(this.index + 1, 0, other);
  }
  remove() { this.parent.children.splice(this.index, 1); }
}

const known = {};
for (const id of ['rows', 'filter', 'rules', 'about', 'broken', 'more']) known[id] = new Element();
global.window = global;
global.location = {hash: ''};
global.document = {
  createElement: (name) => new Element(name),
  createElementNS: (_, name) => new Element(name),
  getElementById: (id) => known[id],
};
new Function(script)();
const rows = known.rows.children.length;
const first = known.rows.children[0];
first.onclick();
const ladder = first.nextSibling;
const drawing = ladder.children[0].children[0];
const of = (name) => drawing.children.filter((each) => each.name === name);
const shown = {rows, lines: of('line').length, texts: of('text').map((each) => each.text), rules: known.rules.children.length};
first.onclick();
shown.closed = first.nextSibling !== ladder;
known.filter.value = 'mkdir';
known.filter.oninput();
shown.filtered = known.rows.children.length;
console.log(JSON.stringify(shown));
