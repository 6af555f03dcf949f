# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that looks at a daemon's dashboard.

What the browser complained of and everything it asked for is kept, so that a
test can say: no errors, no foreign address. Nothing sleeps for a fixed time.
"""
import contextlib
import importlib.util
import json
import os
import shutil
import socket
import sys
import tempfile

from scenario import check, wait_for

SKIPPED = 77
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
DESKTOP, PHONE = (1400, 900), (380, 800)


def need_browser():
    """Ends the test as skipped where there is no browser to look with."""
    if not CHROMIUM or not DRIVER or not importlib.util.find_spec("selenium"):
        print("skipped: chromium, chromium-driver or python3-selenium is "
              "missing")
        sys.exit(SKIPPED)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Page:
    """One tab of one browser, with a profile of its own."""

    def __init__(self, base, size=DESKTOP, dark=False):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        self.base, self.size = base.rstrip("/"), size
        self.profile = tempfile.mkdtemp(prefix="traind-browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars",
                         "--disable-dev-shm-usage", "--no-proxy-server",
                         "--disable-background-networking",
                         f"--user-data-dir={self.profile}",
                         f"--window-size={size[0]},{size[1]}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs",
                               {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options,
                                       service=Service(DRIVER))
        self.asked, self.said = [], []
        # What the browser's own first tab asks for is none of ours.
        self.driver.get("about:blank")
        self.driver.get_log("performance")
        self.cdp("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme",
             "value": "dark" if dark else "light"}])
        if size[0] < 600:
            self.cdp("Emulation.setDeviceMetricsOverride", width=size[0],
                     height=size[1], deviceScaleFactor=1, mobile=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is not None:
                with contextlib.suppress(Exception):
                    self.listen()
                    sys.stderr.write("\n".join(self.said) + "\n")
                    sys.stderr.write(self.text("body") + "\n")
        finally:
            self.driver.quit()
            shutil.rmtree(self.profile, ignore_errors=True)

    def cdp(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    # ---- looking -----------------------------------------------------------

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def find(self, selector, text=None):
        """The first element that is visible, with this text in it."""
        def look():
            for e in self.all(selector):
                with contextlib.suppress(Exception):
                    if e.is_displayed() and (text is None or text in e.text):
                        return e
            return None
        return wait_for(f"{selector} {text or ''}", look)

    def text(self, selector):
        found = self.all(selector)
        return found[0].text if found else ""

    def wait_text(self, selector, *words):
        def look():
            with contextlib.suppress(Exception):
                text = self.text(selector)
                return text if all(w in text for w in words) else None
            return None
        return wait_for(f"{selector} to say {words}", look)

    def number(self, name):
        """What the job's page says of one of its numbers."""
        return self.js(
            "return document.querySelector(`[data-number='${arguments[0]}']"
            " dd`)?.textContent ?? ''", name)

    def colour_count(self, chart, variable):
        """Pixels of a chart in the colour of a variable of the style."""
        return self.js("""
            const hex = getComputedStyle(document.documentElement)
                .getPropertyValue(arguments[1]).trim();
            const want = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
            let n = 0;
            for (const c of document.querySelectorAll(
                     `.plot-${arguments[0]} canvas`)) {
                const d = c.getContext('2d')
                    .getImageData(0, 0, c.width, c.height).data;
                for (let i = 0; i < d.length; i += 4)
                    if (d[i + 3] > 100 && want.every(
                            (v, k) => Math.abs(d[i + k] - v) < 6))
                        n++;
            }
            return n;""", chart, variable)

    # ---- doing -------------------------------------------------------------

    def go(self, where):
        self.driver.get(f"{self.base}/#/{where}")

    def click(self, selector, text=None):
        self.find(selector, text).click()

    def type(self, selector, text):
        e = self.find(selector)
        e.clear()
        e.send_keys(text)
        return e

    def keys(self, *keys):
        """To whatever has the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def log_in(self, token):
        from selenium.webdriver.common.keys import Keys
        self.find("input[name=token]")
        self.type("input[name=token]", token).send_keys(Keys.ENTER)
        wait_for("the page to let one in", lambda: not self.js(
            "return document.body.classList.contains('out')"))

    def drag(self, selector, start, end):
        """Along a chart; start and end as shares of its width."""
        from selenium.webdriver.common.action_chains import ActionChains
        e = self.find(selector)
        w = e.size["width"]
        ActionChains(self.driver).move_to_element_with_offset(
            e, int((start - 0.5) * w), 0).click_and_hold().move_by_offset(
                int((end - start) * w), 2).release().perform()

    def double_click(self, selector):
        from selenium.webdriver.common.action_chains import ActionChains
        ActionChains(self.driver).double_click(self.find(selector)).perform()

    # ---- afterwards --------------------------------------------------------

    def listen(self):
        """Takes in what was asked for and complained of up to now."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])
        self.said += [f"{e['level']} {e['message']}"
                      for e in self.driver.get_log("browser")]

    def check_quiet(self, *expected):
        """No foreign address, no error but those that hold an expected word,
        no violation of the content security policy."""
        self.listen()
        for url in self.asked:
            check(url.startswith(self.base + "/"),
                  f"the page asked for {url}")
        for line in self.said:
            # It minds that colour_count() reads its canvases.
            fine = any(word in line for word in
                       (*expected, "willReadFrequently"))
            check(fine or not line.startswith(("SEVERE", "WARNING")), line)
            check("Content Security Policy" not in line, line)

    def check_width(self):
        """Nothing sticks out to the right."""
        got = self.js("return [document.documentElement.scrollWidth,"
                      " innerWidth]")
        check(got[0] <= got[1], f"{self.driver.current_url}: {got[0]} wide in "
                                f"a window of {got[1]}")

    def shot(self, name):
        """The whole page as a picture, beside the test's other output."""
        folder = os.environ.get("TRAIND_SHOTS")
        if not folder:
            return
        os.makedirs(folder, exist_ok=True)
        width, height = self.size
        whole = self.js("return document.documentElement.scrollHeight")
        self.cdp("Emulation.setDeviceMetricsOverride", width=width,
                 height=max(height, min(whole, 5000)), deviceScaleFactor=1,
                 mobile=width < 600)
        self.js("return new Promise((go) => requestAnimationFrame(() =>"
                " requestAnimationFrame(go)))")
        self.driver.save_screenshot(os.path.join(folder, f"{name}.png"))
        if width < 600:
            self.cdp("Emulation.setDeviceMetricsOverride", width=width,
                     height=height, deviceScaleFactor=1, mobile=True)
        else:
            self.cdp("Emulation.clearDeviceMetricsOverride")
