provider shop {
  probe order__placed(int, string);
  probe closed();
};
