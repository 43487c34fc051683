// The page of vitrine profile in headless Chromium: what a user sees of profiles with known sums.
//
// usage: PAGE_PROFILE=…/page_profile node --test page_test.mjs
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import { chromium } from 'playwright-core';

const made = ['demo', 'known', 'hostile', 'large', 'million', 'empty'];
const folder = mkdtempSync(join(tmpdir(), 'vitrine-page-'));
let browser;

before(async () => {
  for (const name of made)
    writeFileSync(join(folder, `${name}.html`), execFileSync(process.env.PAGE_PROFILE, [name], { maxBuffer: 1 << 28 }));
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    timeout: 120_000,
  });
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/** A test on a page that must have neither complained nor asked for anything when it is done. */
function onPage(what, name, work, { hash = '', prepare, ...options } = {}) {
  test(what, { timeout: 240_000 }, async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
    page.setDefaultTimeout(60_000);
    const complaints = [];
    const requests = [];
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('dialog', (dialog) => (complaints.push(dialog.message()), dialog.dismiss()));
    page.on('request', (request) => requests.push(request.url()));
    if (prepare) await page.addInitScript(prepare);
    const address = `file://${folder}/${name}.html`;
    await page.goto(address + hash);
    await page.locator('h1').waitFor();
    await work(page);
    assert.deepEqual(complaints, []);
    assert.deepEqual(requests.filter((url) => !url.startsWith(address) && !url.startsWith('data:') && !url.startsWith('blob:')), []);
    await page.close();
  });
}

const tree = (page, side = 0) => page.getByRole('tree').nth(side);
/** When nothing is being computed for what is shown. */
const settled = (page) => page.locator('.app[aria-busy="false"]').waitFor();
const item = (page, side = 0) => page.locator(`#frame-${side}`);

/** What is said of a frame when the keys have led to it. */
async function told(page, keys, side = 0) {
  await settled(page);
  await tree(page, side).focus();
  for (const key of ['Home', ...keys]) await page.keyboard.press(key);
  return item(page, side).textContent();
}

const says = async (locator, text) => {
  await locator.filter({ hasText: text }).first().waitFor({ state: 'attached' });
};

onPage('shows what was measured', 'known', async (page) => {
  await says(page.getByRole('status'), '1.00 s of CPU in 100 samples');
  assert.equal(await told(page, []), 'all; 100.0 % of all; 1.00 s, 100 samples');
  assert.equal(await told(page, ['ArrowDown', 'ArrowDown']), 'serve; 90.0 % of all; 900 ms, 90 samples');
  assert.equal(await told(page, ['ArrowDown', 'ArrowDown', 'ArrowRight']), 'poll; 10.0 % of all; 100 ms, 10 samples');
  assert.match(await told(page, ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowDown']), /^do_poll; kernel;/);
  assert.match(await told(page, ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowDown']), /^parse; inlined; 40.0 %/);
});

onPage('groups by tenant', 'known', async (page) => {
  await page.getByLabel('Group by another key').selectOption('tenant');
  const root = (n) => told(page, ['ArrowDown', ...Array(n).fill('ArrowRight')]);
  assert.equal(await root(0), 'tenant = acme; 60.0 % of all; 600 ms, 60 samples');
  assert.equal(await root(1), 'tenant = globex; 30.0 % of all; 300 ms, 30 samples');
  assert.equal(await root(2), 'tenant = (none); 10.0 % of all; 100 ms, 10 samples');
  await page.getByLabel('Group by another key').selectOption('thread');
  await page.getByLabel('Move thread outwards').click();
  assert.equal(await root(0), 'thread = worker; 100.0 % of all; 1.00 s, 100 samples');
  assert.match(await told(page, ['ArrowDown', 'ArrowDown']), /^tenant = acme; 60.0 %/);
  await page.getByLabel('Do not group by thread').click();
  assert.match(await root(0), /^tenant = acme/);
});

onPage('filters by text, by value and without a value', 'known', async (page) => {
  const filter = page.getByLabel('Filter', { exact: true });
  const selected = page.locator('.selected');
  await filter.fill('tenant=acme,route~^/pay');
  await says(selected, '60 of 100 samples');
  await filter.fill('tenant=nobody');
  await page.getByRole('heading', { name: 'No matching samples' }).waitFor();
  await page.getByRole('button', { name: 'Clear the filter' }).click();
  await says(selected, 'in 100 samples');
  await filter.fill('tenant~(');
  await says(page.locator('#filter-error'), 'not a regular expression');
  await filter.fill('');

  const value = (name) => page.getByRole('complementary').getByRole('button', { name: new RegExp(`^${name}`) });
  await value('acme').click();
  await says(selected, '60 of 100 samples');
  await value('globex').click();  // one more
  await says(selected, '90 of 100 samples');
  await value('acme').click();
  await says(selected, '30 of 100 samples');
  await page.getByLabel('Remove tenant = globex').click();
  await value('globex').click({ modifiers: ['Shift'] });
  await says(selected, '70 of 100 samples');
  // The field follows what is shown, a moment later.
  await page.waitForFunction((field) => field.value === 'tenant!=globex', await filter.elementHandle());
  await page.getByRole('complementary', { name: 'Filter by value' }).getByRole('region', { name: 'tenant' })
    .getByRole('button', { name: /^\(none\)/ }).click();
  await says(selected, '10 of 100 samples');
});

onPage('compares two values, and one with all others', 'known', async (page) => {
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  await page.getByLabel('Key to compare').selectOption('tenant');
  await page.getByLabel('Right side').selectOption('=globex');
  assert.equal(await page.getByRole('tree').count(), 2);
  // render: acme 40 of 60, globex 10 of 30.
  const toRender = ['ArrowDown', 'ArrowDown', 'ArrowDown'];
  assert.equal(await told(page, toRender, 0), 'render; 66.7 % of all; 400 ms, 40 samples; difference +33.3 points');
  assert.equal(await item(page, 1).textContent(), 'render; 33.3 % of all; 100 ms, 10 samples; difference +33.3 points');
  await page.getByLabel('Right side').selectOption('');
  assert.match(await told(page, toRender, 1), /^render; 25.0 % of all, 33.3 % of its caller; 100 ms, 10 samples; difference \+41.7 points/);
  await page.getByRole('tab', { name: 'Functions' }).click();
  await says(page.getByRole('row', { name: /render/ }), '+41.7');
});

onPage('shows callers and callees of a function', 'known', async (page) => {
  await page.getByRole('tab', { name: 'Functions' }).click();
  await page.getByLabel('Callers and callees of serve').click();
  await says(page.locator('.focus'), '90.0 % of all (900 ms), 0 % in itself');
  const callers = page.getByRole('tree', { name: 'Call tree of Callers' });
  // The function itself is where both begin.
  assert.match(await told(page, ['ArrowDown']), /^serve;/);
  assert.equal(await told(page, ['ArrowUp']), 'main; 100.0 % of all; 900 ms, 90 samples');
  assert.match(await told(page, ['ArrowUp'], 1), /^serve;/);
  assert.match(await told(page, ['ArrowDown'], 1), /^render; 55.6 % of all; 500 ms, 50 samples/);
  // What is clicked is looked at next, and the address says so.
  await page.keyboard.press('Enter');
  await says(page.locator('.focus'), '50.0 % of all (500 ms)');
  assert.match(await page.evaluate(() => location.hash), /focus=render/);
  assert.equal(await callers.count(), 1);
  await page.getByLabel('Function', { exact: true }).fill('parse');
  await page.keyboard.press('Enter');
  await says(page.locator('.focus'), '40.0 % of all (400 ms)');
});

onPage('tells the lines of a frame, and of a function', 'known', async (page) => {
  const lines = () => page.locator('.tooltip tr').filter({ hasText: '.cpp:' }).allTextContents();
  await told(page, ['ArrowDown', 'ArrowDown', 'ArrowDown']);
  await says(page.locator('.tooltip'), '/src/shop/render.cpp:16');
  await says(page.locator('.tooltip tr'), 'render.cpp:57');
  assert.deepEqual(await lines(), ['render.cpp:5780.0 %', 'render.cpp:6120.0 %']);
  await page.getByRole('button', { name: 'Inverted' }).click();
  await told(page, ['ArrowDown', 'ArrowDown']);
  await says(page.locator('.tooltip tr'), 'serve.cpp:21');
  await page.getByRole('tab', { name: 'Callers' }).click();
  await page.getByLabel('Function', { exact: true }).fill('serve');
  await page.keyboard.press('Enter');
  await says(page.locator('.focus'), '90.0 % of all');
  const list = page.getByRole('list', { name: 'Time by line' }).getByRole('listitem');
  assert.deepEqual(await list.allTextContents(), ['serve.cpp:21 55.6 %', 'serve.cpp:24 44.4 %']);
  await page.getByLabel('Filter', { exact: true }).fill('tenant=globex');
  await says(list, 'serve.cpp:24 66.7 %');
});

onPage('turns the graph over', 'known', async (page) => {
  await page.getByRole('button', { name: 'Inverted' }).click();
  const roots = [await told(page, ['ArrowDown']), await told(page, ['ArrowDown', 'ArrowRight'])];
  assert.ok(roots.some((text) => text.startsWith('render; 40.0 % of all; 400 ms')), roots.join());
  assert.match(await told(page, ['ArrowDown', 'ArrowDown']), /^serve; /);
  await page.getByRole('button', { name: 'Calls', exact: true }).click();
  assert.match(await told(page, ['ArrowDown', 'ArrowDown']), /^serve; 90.0 %/);
});

onPage('the search selects values', 'known', async (page) => {
  await page.getByRole('tab', { name: 'Labels' }).click();
  await page.getByRole('group', { name: 'Key' }).getByRole('button', { name: 'tenant', exact: true }).click();
  await page.getByLabel('Search frames').fill('glob');
  await page.waitForFunction(() => document.querySelectorAll('tbody th').length === 1);
  assert.deepEqual(await page.locator('tbody th').allTextContents(), ['globex']);
});

onPage('searches', 'known', async (page) => {
  await page.keyboard.press('/');
  await page.keyboard.type('RENDER');
  await says(page.locator('#found'), '1 frame · 50.0 %');
  await page.getByLabel('Search frames').fill('/^(memcpy|parse)$/');
  await says(page.locator('#found'), '2 frames · 50.0 %');
  await page.getByLabel('Search frames').fill('/(/');
  await says(page.locator('#found'), 'not a regular expression');
});

onPage('zooms with nothing but keys', 'known', async (page) => {
  const inTree = () => page.evaluate(() => document.activeElement?.getAttribute('role') === 'tree');
  for (let i = 0; i < 60 && !(await inTree()); i++) await page.keyboard.press('Tab');
  assert.ok(await inTree(), 'Tab leads to the graph');
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowRight', 'Enter']) await page.keyboard.press(key);
  const crumbs = page.getByRole('navigation', { name: 'Zoom' });
  await says(crumbs.locator('[aria-current]'), 'query');
  await page.keyboard.press('Backspace');
  await says(crumbs.locator('[aria-current]'), 'serve');
  await page.keyboard.press('Escape');
  await crumbs.locator('[aria-current]').waitFor({ state: 'detached' });
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});

onPage('zooms with the pointer, and tells what is under it', 'known', async (page) => {
  const box = await page.locator('canvas').boundingBox();
  const row = (n) => box.y + 20 * n + 10;
  await page.mouse.move(box.x + 40, row(3));
  await says(page.locator('.tooltip'), 'render');
  await says(page.locator('.tooltip'), '50.0 %');
  const hovered = await page.locator('.hovered').boundingBox();
  assert.equal(Math.round(hovered.y - box.y), 60);
  assert.ok(Math.abs(hovered.width / box.width - 0.5) < 0.01);
  await page.mouse.click(box.x + 40, row(3));
  await says(page.locator('[aria-current]'), 'render');
  assert.match(page.url(), /zoom=/);
  await page.reload();
  await says(page.locator('[aria-current]'), 'render');
  await page.getByRole('button', { name: 'Reset zoom' }).click();
  // As a flame, the whole is at the bottom.
  await page.getByRole('button', { name: 'Flame', exact: true }).click();
  const below = await page.locator('canvas').boundingBox();
  await page.mouse.move(below.x + 40, below.y + below.height - 70);
  await says(page.locator('.tooltip'), 'render');
});

onPage('switches between time on and off the CPU', 'known', async (page) => {
  await page.getByRole('button', { name: 'Off-CPU' }).click();
  await says(page.locator('.selected'), '4.00 s off the CPU in 4 samples');
  assert.equal(await told(page, ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown']), 'schedule; kernel; 100.0 % of all; 4.00 s, 4 samples');
  await page.getByRole('button', { name: 'CPU', exact: true }).click();
  await says(page.locator('.selected'), 'of CPU in 100 samples');
});

onPage('shows a range of time', 'known', async (page) => {
  const box = await page.locator('.surface').boundingBox();
  await page.mouse.move(box.x + box.width * 0.45, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.8, box.y + 20, { steps: 4 });
  await page.mouse.up();
  await says(page.locator('.selected'), '30 of 100 samples');
  await page.reload();
  await says(page.locator('.selected'), '30 of 100 samples');
  const from = page.getByRole('slider', { name: 'From' });
  await from.focus();
  await page.keyboard.press('Home');
  await says(page.locator('.selected'), 'in 100 samples');
  await page.getByRole('slider', { name: 'To' }).focus();
  await page.keyboard.press('End');
  for (let i = 0; i < 6; i++) await page.keyboard.press('Shift+ArrowLeft');
  await says(page.locator('.selected'), '70 of 100 samples');
  await page.keyboard.press('Escape');
  await says(page.locator('.selected'), 'in 100 samples');
});

onPage('has tables of functions and of values', 'known', async (page) => {
  await page.getByRole('tab', { name: 'Functions' }).click();
  const names = async () => {
    await settled(page);
    return page.locator('tbody th').allTextContents();
  };
  assert.deepEqual((await names()).slice(0, 2).sort(), ['parseshop', 'rendershop']);
  await page.getByRole('button', { name: /^Total/ }).click();
  assert.deepEqual((await names()).slice(0, 2), ['mainshop', 'serveshop']);
  await page.getByRole('tab', { name: 'Labels' }).click();
  await page.getByRole('group', { name: 'Key' }).getByRole('button', { name: 'tenant', exact: true }).click();
  assert.deepEqual(await names(), ['acme', 'globex', '(none)']);
  await page.getByRole('row', { name: /globex/ }).getByRole('button', { name: 'not' }).click();
  assert.deepEqual(await names(), ['acme', '(none)']);
});

onPage('names that attack the page do nothing', 'hostile', async (page) => {
  for (const view of ['Flame graph', 'Callers', 'Functions', 'Labels']) {
    await page.getByRole('tab', { name: view }).click();
    assert.equal(await page.evaluate(() => window.attacked), undefined);
    assert.equal(await page.locator('img, iframe, b, script:not([id])').count(), 1, 'only the script of the page');
  }
  await page.getByRole('tab', { name: 'Flame graph' }).click();
  await page.getByText('note').first().click();  // the notice is made of them, too
  const roots = [];
  for (let i = 0; i < 16; i++) roots.push(await told(page, ['ArrowDown', ...Array(i).fill('ArrowRight')]));
  assert.ok(roots.some((text) => text.startsWith('tenant = </script><script>window.attacked = 1</script>;')));
  assert.ok(roots.some((text) => text.includes('‹U+202E›')));
  for (const text of roots) assert.ok(text.length < 1500);
  const value = page.getByRole('complementary').getByRole('button', { name: /^<img src=x/ }).first();
  await value.click();
  await says(page.locator('.chip'), '<img src=x');
  assert.equal(await page.evaluate(() => window.attacked), undefined);
});

test('the page cannot reach the network', { timeout: 120_000 }, async () => {
  const page = await browser.newPage();
  await page.goto(`file://${folder}/known.html`);
  const refused = await page.evaluate(async () => {
    const violations = [];
    addEventListener('securitypolicyviolation', (event) => violations.push(event.effectiveDirective));
    await fetch('http://127.0.0.1:9/').catch(() => {});
    await new Promise((done) => {
      const image = new Image();
      image.onerror = done;
      image.src = 'http://127.0.0.1:9/x.png';
    });
    const script = document.createElement('script');
    script.textContent = 'window.attacked = 1';
    document.body.append(script);
    await new Promise((done) => setTimeout(done, 0));
    return { violations, attacked: window.attacked };
  });
  assert.deepEqual(refused.violations.sort(), ['connect-src', 'img-src', 'script-src-elem']);
  assert.equal(refused.attacked, undefined);
  // The worker has the policy of its page.
  const [worker] = page.workers();
  assert.equal(await worker.evaluate(() => fetch('http://127.0.0.1:9/').then(() => 'fetched', (error) => error.name)), 'TypeError');
  assert.equal(await worker.evaluate(() => new Promise((done) => {
    addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
    void fetch('http://127.0.0.1:9/').catch(() => {});
  })), 'connect-src');
  await page.close();
});

onPage('50,000 distinct stacks can be worked with', 'large', async (page) => {
  const took = async (what, work) => {
    const start = performance.now();
    await work();
    console.log(`large: ${what}: ${Math.round(performance.now() - start)} ms`);
  };
  await says(page.locator('.selected'), '50,000 samples');
  await took('filter', async () => {
    await page.getByLabel('Filter', { exact: true }).fill('tenant=acme');
    await says(page.locator('.selected'), 'of 50,000 samples');
  });
  await took('search', async () => {
    await page.getByLabel('Search frames').fill('/leaf4999\\d$/');
    await says(page.locator('#found'), /^\d frames? ·/);
  });
  await took('group', async () => {
    await page.getByLabel('Group by another key').selectOption('tid');
    assert.match(await told(page, ['ArrowDown', 'ArrowDown']), /^tid = /);
  });
  await took('40 moves of the pointer', async () => {
    const box = await page.locator('canvas').boundingBox();
    for (let i = 0; i < 40; i++) await page.mouse.move(box.x + 10 + i * 20, box.y + 10 + (i % 20) * 20);
    await page.locator('.tooltip').waitFor();
  });
  await took('zoom', async () => {
    await told(page, ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown', 'Enter']);
    await page.locator('[aria-current]').waitFor();
  });
  await took('functions', async () => {
    await page.getByLabel('Search frames').fill('');
    await page.getByRole('tab', { name: 'Functions' }).click();
    await page.getByRole('button', { name: 'Show more' }).waitFor();
  });
});

/** Moves the pointer for as long as `work` takes: how many moves the page saw while it computed, and the longest, in
 * milliseconds, that it took to see one. That is of the machine, too: no bound is set on it. */
async function underMoves(page, work) {
  await page.evaluate(() => {
    window.moves = { longest: 0, beside: 0 };
    window.sawMove ??= addEventListener('pointermove', (event) => {
      window.moves.longest = Math.max(window.moves.longest, performance.now() - event.timeStamp);
      if (document.querySelector('.app[aria-busy="true"]')) window.moves.beside++;
    }, { capture: true }) ?? true;
  });
  let done = false;
  const moving = (async () => {
    for (let i = 0; !done; i++) await page.mouse.move(400 + (i * 13) % 500, 420 + (i * 7) % 200);
  })();
  try {
    await work();
    await settled(page);
  } finally {
    done = true;
    await moving;
  }
  return page.evaluate(() => window.moves);
}

/** The most processor time, in milliseconds, that one task of the page's main thread takes while `work` is done. */
async function longestTask(page, work) {
  await settled(page);
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] });
  await work();
  await settled(page);
  const { traceEvents } = JSON.parse(await browser.stopTracing());
  const here = await page.evaluate(() => performance.timeOrigin);  // the page still answers
  assert.ok(here > 0);
  const mains = traceEvents.filter((e) => e.name === 'thread_name' && e.args.name === 'CrRendererMain');
  const tasks = traceEvents.filter((e) => e.tdur !== undefined && mains.some((main) => main.pid === e.pid && main.tid === e.tid));
  assert.ok(tasks.length > 0, 'the trace has tasks of the main thread');
  return tasks.reduce((most, e) => Math.max(most, e.tdur / 1000), 0);
}

onPage('1,000,000 samples are worked with beside the main thread', 'million', async (page) => {
  await says(page.locator('.selected'), '1,000,000 samples');
  const works = {
    'group by a key with 100,000 values': async () => {
      await page.getByLabel('Group by another key').selectOption('user');
      assert.match(await told(page, ['ArrowDown', 'ArrowDown']), /^user = /);
    },
    'group by another key': async () => {
      await page.getByLabel('Group by another key').selectOption('tid');
      assert.match(await told(page, ['ArrowDown', 'ArrowDown', 'ArrowDown']), /^tid = /);
    },
    'filter': async () => {
      await page.getByLabel('Filter', { exact: true }).fill('tenant=acme');
      await says(page.locator('.selected'), 'of 1,000,000 samples');
    },
    'compare': () => page.getByRole('button', { name: 'Compare', exact: true }).click(),
    'stop comparing': () => page.getByRole('button', { name: 'Compare', exact: true }).click(),
    'invert': () => page.getByRole('button', { name: 'Inverted' }).click(),
    'search': async () => {
      await page.getByLabel('Search frames').fill('/leaf49\d\d$/');
      await says(page.locator('#found'), /^[\d,]+ frames ·/);
    },
    'callers': async () => {
      await page.getByRole('tab', { name: 'Callers' }).click();
      await says(page.locator('.focus'), 'in itself');
    },
    'functions': async () => {
      await page.getByLabel('Search frames').fill('');
      await page.getByRole('tab', { name: 'Functions' }).click();
      await page.getByRole('button', { name: 'Show more' }).waitFor();
    },
    'labels': async () => {
      await page.getByRole('tab', { name: 'Labels' }).click();
      await page.getByRole('group', { name: 'Key' }).getByRole('button', { name: 'user', exact: true }).click();
      await page.getByRole('button', { name: 'Show more' }).waitFor();
    },
  };
  let beside = 0;
  for (const [what, work] of Object.entries(works)) {
    const start = performance.now();
    let moves;
    const most = await longestTask(page, async () => (moves = await underMoves(page, work)));
    console.log(`million: ${what}: ${Math.round(performance.now() - start)} ms, longest task ${most.toFixed(1)} ms, ` +
      `a move waited ${moves.longest.toFixed(1)} ms, ${moves.beside} moves meanwhile`);
    assert.ok(most < 100, `${what}: a task of ${most} ms of processor time`);
    beside += moves.beside;
  }
  assert.ok(beside > 20, 'the page saw moves while it computed');
  // A frame has its lines when the pointer is at rest.
  await page.getByRole('tab', { name: 'Flame graph' }).click();
  for (const name of ['Calls', 'Do not group by user', 'Do not group by tid'])
    await page.getByRole('button', { name, exact: true }).click();
  await page.mouse.move(0, 0);
  const most = await longestTask(page, async () => {
    await told(page, ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown']);
    await says(page.locator('.tooltip tr'), /^layer\d+\.cpp:\d+/);
  });
  assert.ok(most < 100, `lines: a task of ${most} ms of processor time`);
});

// What a browser has that lets no worker run, in either of the ways in which that shows.
for (const [how, prepare] of Object.entries({
  'throws': () => (globalThis.Worker = class { constructor() { throw new DOMException('no', 'SecurityError'); } }),
  'fails later': () => (globalThis.Worker = class { constructor() { setTimeout(() => this.onerror(new Event('error')), 10); } postMessage() {} }),
}))
  onPage(`works without a worker: one that ${how}`, 'known', async (page) => {
    assert.equal(page.workers().length, 0);
    assert.equal(await told(page, ['ArrowDown', 'ArrowDown']), 'serve; 90.0 % of all; 900 ms, 90 samples');
    await page.getByLabel('Filter', { exact: true }).fill('tenant=acme');
    await says(page.locator('.selected'), '60 of 100 samples');
    await page.getByRole('tab', { name: 'Callers' }).click();
    await says(page.locator('.focus'), 'in itself');
  }, { prepare });

for (const colorScheme of ['light', 'dark'])
  for (const hash of ['', '#view=sandwich', '#inverted=1&group=tenant', '#view=functions&compare=tenant,acme', '#view=labels&filter=route!=/cart', '#flame=1&compare=tenant,acme,globex&search=query'])
    onPage(`axe finds nothing, ${colorScheme} ${hash}`, 'demo', async (page) => {
      await tree(page).or(page.locator('table')).first().waitFor();
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
      assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160)).join(' | ')}`), []);
    }, { colorScheme, hash });

onPage('a profile without samples says so', 'empty', async (page) => {
  await page.getByRole('heading', { name: 'No samples' }).waitFor();
});

onPage('nothing is lost without a word', 'demo', async (page) => {
  await page.locator('.notice summary').click();
  await says(page.locator('.notice li'), '3 samples were lost');
  await says(page.locator('.notice li'), 'libcrypto.so.3 has no symbols');
});

for (const width of [390, 600])
  onPage(`has its filters in a drawer at ${width} pixels`, 'demo', async (page) => {
    const values = page.getByRole('complementary', { name: 'Filter by value' });
    await settled(page);
    assert.equal(await values.isVisible(), false);
    await page.getByRole('button', { name: 'Filter by value' }).click();
    await values.getByRole('button', { name: /^globex/ }).click();
    await says(page.locator('.selected'), 'of 8,550 samples');
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
    assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160)).join(' | ')}`), []);
    await values.getByRole('button', { name: 'Done' }).click();
    assert.equal(await values.isVisible(), false);
    await page.getByLabel('Remove tenant = globex').click();
    await page.getByRole('button', { name: 'Filter by value' }).click();
    await page.keyboard.press('Escape');
    assert.equal(await values.isVisible(), false);
    // A table has its names on the screen, whatever else it has.
    await page.getByRole('tab', { name: 'Functions' }).click();
    await page.getByRole('button', { name: 'Compare', exact: true }).click();
    const name = page.locator('tbody th button').first();
    await name.waitFor();
    await settled(page);
    const { x, width: wide } = await name.boundingBox();
    assert.ok(x >= 0 && x + wide <= width, `${x} and ${wide} pixels`);
  }, { viewport: { width, height: 844 }, hasTouch: true });

for (const colorScheme of ['light', 'dark'])
  onPage(`fits a phone, ${colorScheme}`, 'demo', async (page) => {
    for (const view of ['Flame graph', 'Callers', 'Functions', 'Labels']) {
      await page.getByRole('tab', { name: view }).click();
      await settled(page);
      const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= seen, `${view}: ${wide} pixels on ${seen}`);
    }
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(background, colorScheme === 'dark' ? 'rgb(20, 23, 29)' : 'rgb(255, 255, 255)');
    await page.getByRole('button', { name: colorScheme === 'dark' ? 'Light colours' : 'Dark colours' }).click();
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), background);
  }, { viewport: { width: 390, height: 844 }, colorScheme, hasTouch: true });
